/** Draws the id of a row before it is inserted, where the database makes it. */
import { type Connection, prepare } from '@resource-api/database'
import { getRowParts, type RowId } from '@resource-api/database/key'
import { getTableName, is, SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgColumn } from 'drizzle-orm/pg-core'
import type { ResourceTable } from '../definition/resource-table.ts'

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`

/** Returns the expression of the default of a column: that of its declaration, or of the sequence that it owns. */
function buildDefault(table: ResourceTable, { default: declared, name }: PgColumn): SQL {
  if (is(declared, SQL)) return declared
  const { schema } = getTableConfig(table)
  const path = [...(schema === undefined ? [] : [schema]), getTableName(table)].map(quote).join('.')
  return sql`nextval(pg_get_serial_sequence(${path}::text, ${name}::text))`
}

/**
 * Creates the function that draws ids. A default that a table owns no sequence for, as one that a trigger makes, is null.
 * @returns undefined if the database makes no id of the table by a default
 */
export function createDrawId(table: ResourceTable) {
  const { key } = getRowParts(table)
  if (key.madeBy !== 'database' || key.split) return undefined
  const [{ column }] = key.parts
  const draw = prepare((db) =>
    db.execute<{ id: RowId | null }>(sql`select ${buildDefault(table, column)} as id`),
  )
  return async (connection: Connection): Promise<RowId | undefined> => {
    const [row] = await draw(connection)
    return row?.id ?? undefined
  }
}
