/** Inserts rows into the tables, in bulk and with chosen timestamps, which no request can do. */
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
