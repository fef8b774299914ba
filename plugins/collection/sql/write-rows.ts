/** Writes many rows of a resource by one statement each: inserts, and updates that set different columns. */

import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import { getColumnType } from '../../../drizzle/expressions.ts'
import { mapInTurns, SHORT_TURN_MS } from '../../../lib/map-in-turns.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import type { RowsChange } from '../../outbox/recorder.ts'
import type { RowUpdate, Stores } from '../resource.ts'
import type { ResourceTable } from '../resource-table.ts'
import type { Row, RowStore } from '../store.ts'
import { getColumn } from './conditions.ts'
import type { RowChange } from './row-change.ts'

/** Returns the values of a row in the form in which PostgreSQL reads them from JSON. */
function toJsonRow(columns: Readonly<Record<string, PgColumn>>, names: readonly string[], row: Values) {
  const values: Record<string, unknown> = {}
  for (const name of names) {
    const column = getColumn(columns, name)
    const value = row[name]
    // PostgreSQL reads values and arrays of JSON itself.
    const isJson = value === null || column.dataType === 'json' || column.dataType === 'array'
    values[name] = isJson ? value : column.mapToDriverValue(value)
  }
  return values
}

/** Writes rows as a JSON array, the parameter of a statement. */
async function writeJsonRows<T>(
  rows: readonly T[],
  toJson: (row: T, position: number) => object,
): Promise<string> {
  const texts = await mapInTurns(
    rows,
    (row, position) => JSON.stringify(toJson(row, position)),
    SHORT_TURN_MS,
  )
  return `[${texts.join()}]`
}

/** What an update sets, and the former values that its event has. */
interface Difference {
  values: Record<string, unknown>
  names: string[]
  previous: Record<string, unknown>
}

/** What the writes of many rows share with those of one. */
interface WriteParts {
  table: ResourceTable
  columns: Record<string, PgColumn>
  columnNames: readonly string[]
  constrainedColumns: ReadonlySet<string>
  /** The columns of a row that is returned whole. */
  allColumns: Record<string, PgColumn>
  runAll(connection: Connection, origin: ChangeOrigin, change: RowChange): Promise<Row[]>
  readNames(values: Values): { names: string[] }
  lockTable(connection: Connection): Promise<void>
  findDifference(update: RowUpdate): Difference | undefined
  getSearchColumn(row: Values): Values | undefined
  toNextVersion(): { revision: SQL; updated_at: SQL }
  store(connection: Connection, origin: ChangeOrigin): RowStore<Row>
}

export function createRowsWriter(parts: WriteParts): Pick<Stores, 'insertAll' | 'updateAll'> {
  const { table, columns, columnNames, constrainedColumns, allColumns } = parts
  const { runAll, readNames, lockTable, findDifference, getSearchColumn, toNextVersion, store } = parts
  const nullByDefault = columnNames.filter((name) => {
    const { hasDefault, notNull, generated } = getColumn(columns, name)
    return !hasDefault && !notNull && !generated
  })

  /** Inserts rows that have the same columns, by one statement with one parameter: the rows as a JSON array. */
  const insertAlike = async (
    connection: Connection,
    origin: ChangeOrigin,
    names: readonly string[],
    rows: readonly Values[],
    returning: Record<string, PgColumn>,
  ): Promise<Row[]> => {
    const list = sql.join(
      names.map((name) => sql.identifier(name)),
      sql`, `,
    )
    const insert: RowsChange = {
      returning: (fields) =>
        sql`insert into ${table} (${list})
          select ${list} from json_populate_recordset(null::${table}, ${sql.placeholder('rows')}::json)
          returning ${sql.join(Object.values(fields), sql`, `)}`,
    }
    return runAll(connection, origin, {
      kind: 'created',
      shape: `rows|${names}|${Object.keys(returning)}`,
      values: { rows: await writeJsonRows(rows, (row) => toJsonRow(columns, names, row)) },
      build: () => ({ change: insert }),
      returning,
    })
  }

  const insertAll: Stores['insertAll'] = async (connection, origin, rows, returning = allColumns) => {
    await lockTable(connection)
    const inserted: Row[] = []
    let alike: { shape: string; names: readonly string[]; rows: Values[] } = {
      shape: '',
      names: [],
      rows: [],
    }
    const flush = async () => {
      if (alike.rows.length === 0) return
      inserted.push(...(await insertAlike(connection, origin, alike.names, alike.rows, returning)))
    }
    // A column without a default is null in the rows that do not have it: rows with other columns are the same statement.
    const set = new Set<string>()
    for (const row of rows) for (const name of Object.keys(row)) set.add(name)
    const nulls = Object.fromEntries(
      nullByDefault.filter((name) => set.has(name)).map((name) => [name, null]),
    )
    const prepareRow = (fields: Values) => {
      const values: Values = Object.assign({}, nulls, fields, getSearchColumn(fields))
      const { names } = readNames(values)
      return { values, names, shape: `${names}` }
    }
    for (const { values, names, shape } of await mapInTurns(rows, prepareRow, SHORT_TURN_MS)) {
      if (shape !== alike.shape) {
        await flush()
        alike = { shape, names, rows: [] }
      }
      alike.rows.push(values)
    }
    await flush()
    return inserted
  }

  /**
   * Updates rows by one statement with one parameter, a JSON array: the values of each row, and the names of the columns
   * that it sets, since not all set the same ones.
   */
  const updateTogether = async (
    connection: Connection,
    origin: ChangeOrigin,
    updates: readonly { current: Row; difference: Difference }[],
  ): Promise<void> => {
    if (updates.length === 0) return
    const set = new Set(updates.flatMap(({ difference }) => difference.names))
    const names = columnNames.filter((name) => set.has(name))
    const rows = await writeJsonRows(updates, ({ current, difference }, position) => ({
      sent_id: current.id,
      sent_revision: current.revision,
      sent_position: position,
      sent_names: difference.names,
      sent_previous: difference.previous,
      ...toJsonRow(columns, difference.names, difference.values),
    }))
    const types = names.map((name) => {
      const type = sql.raw(getColumnType(getColumn(columns, name)))
      return sql`, ${sql.identifier(name)} ${type}`
    })
    const sent = sql`json_to_recordset(${sql.placeholder('rows')}::json) as sent(sent_id uuid, sent_revision bigint,
      sent_position integer, sent_names text[], sent_previous json${sql.join(types)})`
    const values = names.map((name) => {
      const isSet = sql`${sql.raw(`'${name}'`)} = any(sent.sent_names)`
      const column = getColumn(columns, name)
      return [name, sql`case when ${isSet} then sent.${sql.identifier(name)} else ${column} end`] as const
    })
    const updated = await runAll(connection, origin, {
      kind: 'updated',
      shape: `rows|${names}`,
      values: { rows },
      build: (db) => ({
        change: db
          .update(table)
          .set({ ...Object.fromEntries(values), ...toNextVersion() })
          .from(sent)
          .where(sql`${table.id} = sent.sent_id and ${table.revision} = sent.sent_revision`),
        former: { former_values: sql`sent.sent_previous`, sent_position: sql`sent.sent_position` },
        previous: sql`former_values`,
        order: sql`sent_position`,
      }),
      returning: { id: table.id },
    })
    if (updated.length < updates.length) throw new Error('A row has changed since it was locked')
  }

  const updateAll: Stores['updateAll'] = async (connection, origin, updates) => {
    let count = 0
    let together: { current: Row; difference: Difference }[] = []
    const differences = await mapInTurns(updates, findDifference, SHORT_TURN_MS)
    for (const [i, update] of updates.entries()) {
      const difference = differences[i]
      if (!difference) continue
      count += 1
      // Whether a value is taken depends on the order of the updates, which one statement does not keep.
      if (!difference.names.some((name) => constrainedColumns.has(name))) {
        together.push({ current: update.current, difference })
        continue
      }
      await updateTogether(connection, origin, together)
      together = []
      await store(connection, origin).update(update.current, update.next)
    }
    await updateTogether(connection, origin, together)
    return count
  }

  return { insertAll, updateAll }
}
