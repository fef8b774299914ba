/** Inserts rows that no request can create, and creates tables of definitions of the tests. */

import { is, SQL } from 'drizzle-orm'
import { getTableConfig, type PgColumn, PgDialect, type PgTable } from 'drizzle-orm/pg-core'
import { v7 as uuid } from 'uuid'
import type { Database, Param } from '../../drizzle/client/index.ts'
import { buildSearchText } from '../../plugins/collection/sql/case-folding.ts'

export type Values = Record<string, Param | undefined>

const searched: Record<string, readonly string[]> = {
  users: ['name', 'email'],
  user_profiles: ['display_name', 'bio'],
  posts: ['title', 'body'],
  notes: ['title', 'body'],
  products: ['sku', 'name', 'description'],
  orders: ['number', 'note'],
}

let count = 0

/** Default values of the rows of each table. */
const defaults: Record<string, (n: number) => Values> = {
  users: (n) => ({ name: `User ${n}`, email: `user.${n}@example.com` }),
  user_profiles: () => ({}),
  posts: (n) => ({ title: `Post ${n}`, body: 'Body' }),
  notes: (n) => ({ title: `Note ${n}`, body: 'Body' }),
  products: (n) => ({ sku: `SKU-${n}`, name: `Product ${n}`, price_amount: 100, status: 'active' }),
  orders: (n) => ({
    number: `ORD-9${String(n).padStart(9, '0')}`,
    items: '[]',
    currency: 'USD',
    total_amount: 100,
  }),
}

/** Inserts rows in one statement and returns their ids in the same order. */
export async function insertRows(
  database: Database,
  table: string,
  rows: readonly Values[],
): Promise<string[]> {
  if (rows.length === 0) return []
  const whole = rows.map((row): Values => {
    count += 1
    const values: Values = { id: uuid(), ...defaults[table]?.(count), ...row }
    return searched[table] ? { ...values, search: buildSearchText(values, searched[table]) } : values
  })
  const names = [...new Set(whole.flatMap((row) => Object.keys(row)))]
  const params: Param[] = []
  const place = (value: Param | undefined) => (value === undefined ? 'default' : `$${params.push(value)}`)
  const tuples = whole.map((row) => `(${names.map((name) => place(row[name])).join()})`)
  await database.run(`insert into ${table} (${names.join()}) values ${tuples.join()}`, params)
  return whole.map(({ id }) => String(id))
}

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

/** Returns a valid value of a required column. Texts and ids differ from row to row, as unique columns need. */
function getValue(column: PgColumn): Param {
  const type = column.getSQLType()
  if (type.startsWith('text') || type === 'uuid') return uuid()
  if (type === 'date') return '2026-12-01'
  if (type.startsWith('timestamp')) return '2026-12-01T09:30:00Z'
  if (type === 'boolean') return false
  return type === 'jsonb' ? '[]' : 1
}

/**
 * @param given the values of some columns
 * @returns the id of the row; other columns that are nullable or have a default are not set
 */
export async function insertRow(
  database: Database,
  table: PgTable,
  given: Readonly<Record<string, Param>> = {},
): Promise<string> {
  const { name, columns, foreignKeys } = getTableConfig(table)
  const targets = new Map(
    foreignKeys.map((key) => {
      const { columns: keyColumns, foreignTable } = key.reference()
      return [keyColumns[0]?.name, foreignTable]
    }),
  )
  const id = uuid()
  const values = new Map<string, Param>()
  for (const column of columns) {
    const target = targets.get(column.name)
    if (column.name === 'id') values.set('id', id)
    else if (given[column.name] !== undefined) values.set(column.name, given[column.name] ?? null)
    else if (!column.notNull || column.hasDefault) continue
    else values.set(column.name, target ? await insertRow(database, target) : getValue(column))
  }
  const params = [...values.keys()].map((_, i) => `$${i + 1}`)
  const names = [...values.keys()].map((column) => `"${column}"`)
  await database.run(`insert into "${name}" (${names.join()}) values (${params.join()})`, [
    ...values.values(),
  ])
  return id
}
