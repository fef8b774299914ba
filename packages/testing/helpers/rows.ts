/** Inserts rows that no request can create, and creates tables of definitions of the tests. */
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect, type PgTable } from 'drizzle-orm/pg-core'
import { v7 as uuid } from 'uuid'
import type { Database, Param } from '../../database/src/client/index.ts'
import { buildSearchText } from '../../resources/src/sql/case-folding.ts'

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
