/** Inserts rows. */
import type { Connection } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import { mapInTurns, SHORT_TURN_MS } from '@resource-api/database/concurrency'
import { toNames } from '@resource-api/database/tables'
import { is, SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Stores } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import type { ChangeOrigin } from '../outbox/origin.ts'
import type { RowsChange } from '../outbox/recorder.ts'
import { getColumn } from './conditions.ts'
import { toJsonRow, writeJsonRows } from './json-rows.ts'
import type { StatementRunner } from './statement-runner.ts'

/** In a template, an expression with a name is that name alone. */
const toReturned = (field: PgColumn | SQL.Aliased): PgColumn | SQL =>
  is(field, SQL.Aliased) ? sql`${field.sql} as ${sql.identifier(field.fieldAlias)}` : field

export function createInsertRows(runner: StatementRunner): Stores['insertRows'] {
  const { table, columns, columnNames } = runner
  const { getSearchColumn, listNames, lockTable, runAll } = runner
  const nullByDefault = columnNames.filter((name) => {
    const { hasDefault, notNull, generated } = getColumn(columns, name)
    return !hasDefault && !notNull && !generated
  })

  // A restore sets such an id again.
  const isAlways = Object.values(columns).some(
    ({ generatedIdentity }) => generatedIdentity?.type === 'always',
  )
  const overriding = isAlways ? sql` overriding system value` : sql``

  /** Inserts rows that have the same columns. */
  const insertAlike = async (
    connection: Connection,
    origin: ChangeOrigin,
    names: readonly string[],
    rows: readonly Values[],
  ): Promise<Row[]> => {
    const list = toNames(...names.map((name) => getColumn(columns, name)))
    const insert: RowsChange = {
      returning: (fields) =>
        sql`insert into ${table} (${list})${overriding}
          select ${list} from json_populate_recordset(null::${table}, ${sql.placeholder('rows')}::json)
          returning ${sql.join(Object.values(fields).map(toReturned), sql`, `)}`,
    }
    return runAll(connection, origin, {
      kind: 'created',
      shape: `${names}`,
      count: rows.length,
      values: { rows: await writeJsonRows(rows, (row) => toJsonRow(columns, names, row)) },
      build: () => ({ change: insert }),
    })
  }

  return async (connection, origin, rows) => {
    await lockTable(connection)
    // A column without a default is null in the rows that do not have it: rows with other columns are the same statement.
    const set = new Set(rows.flatMap((row) => Object.keys(row)))
    const nulls = Object.fromEntries(
      nullByDefault.filter((name) => set.has(name)).map((name) => [name, null]),
    )
    const toValues = (row: Values) => {
      const values: Values = Object.assign({}, nulls, row, getSearchColumn(row))
      const names = listNames(values)
      return { values, names, shape: `${names}` }
    }
    const groups: { names: readonly string[]; shape: string; rows: Values[] }[] = []
    for (const { values, names, shape } of await mapInTurns(rows, toValues, SHORT_TURN_MS)) {
      const group = groups.at(-1)
      if (group?.shape === shape) group.rows.push(values)
      else groups.push({ names, shape, rows: [values] })
    }
    const inserted: Row[] = []
    for (const group of groups) {
      for (const row of await insertAlike(connection, origin, group.names, group.rows)) inserted.push(row)
    }
    return inserted
  }
}
