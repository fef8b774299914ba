/** Creates the table of a definition of the tests. */
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect, type PgTable } from 'drizzle-orm/pg-core'
import type { Database } from '../../drizzle/client/index.ts'

const toText = (value: unknown): string =>
  is(value, SQL) ? new PgDialect().sqlToQuery(value).sql : `'${String(value)}'`

/** Creates a table with its columns and foreign keys, without indexes. Call it before the first request. */
export async function createTable(database: Database, table: PgTable): Promise<void> {
  const { name, columns, foreignKeys } = getTableConfig(table)
  const lines = columns.map((column) =>
    [
      `"${column.name}" ${column.getSQLType()}`,
      column.primary ? ' primary key' : '',
      column.notNull ? ' not null' : '',
      column.hasDefault ? ` default ${toText(column.default)}` : '',
    ].join(''),
  )
  const keys = foreignKeys.map((key) => {
    const { columns: own, foreignTable, foreignColumns } = key.reference()
    return `constraint ${key.getName()} foreign key (${own.map((each) => each.name)})
      references "${getTableConfig(foreignTable).name}" (${foreignColumns.map((each) => each.name)})
      on delete ${key.onDelete ?? 'no action'}`
  })
  await database.run(`create table "${name}" (${[...lines, ...keys].join()})`)
}
