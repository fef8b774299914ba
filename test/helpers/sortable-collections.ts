/** The collections with their documented sorts, and rows to fill them. */
import type { Database } from '../../drizzle/client/index.ts'
import { insertRows, type Values } from './rows.ts'

export interface Collection {
  path: string
  table: string
  /** The contract's sortable fields. */
  sorts: readonly string[]
  /** A filter with several values that selects all rows. */
  everyValue: string
  /** Returns the values of row `n`, with few distinct values, so that many rows are equal in a sort. */
  row(n: number): Values
}

const at = (n: number) => `2026-01-01T00:00:00.00000${n % 3}Z`
const text = (n: number) =>
  ['b', 'B', 'a"\\', 'é', '\u{10ffff}z', '\u{1f600}', '\uffee', '\u{10ffff}'][n % 8] ?? ''

const role = (n: number) => ['member', 'manager', 'admin'][n % 3]

/** Returns the five collections. The posts belong to `owner`, each profile to a new user. */
export async function createCollections(database: Database, owner: string): Promise<Collection[]> {
  const users = await insertRows(
    database,
    'users',
    Array.from({ length: 60 }, (_, n) => ({ name: text(n), created_at: at(n), updated_at: at(n + 1) })),
  )
  return [
    {
      path: '/users',
      table: 'users',
      sorts: ['name', 'email', 'created_at', 'updated_at'],
      everyValue: 'role=member,manager,admin',
      row: (n) => ({ name: text(n), role: role(n), created_at: at(n), updated_at: at(n >> 2) }),
    },
    {
      path: '/user-profiles',
      table: 'user_profiles',
      sorts: ['display_name', 'created_at', 'updated_at'],
      everyValue: `user_id=${users.slice(0, 50).join()}`,
      row: (n) => ({
        user_id: users[n],
        display_name: n % 3 === 0 ? null : text(n),
        created_at: at(n),
        updated_at: at(n >> 2),
      }),
    },
    {
      path: `/users/${owner}/posts`,
      table: 'posts',
      sorts: ['title', 'published_at', 'created_at', 'updated_at'],
      everyValue: 'status=draft,published,archived',
      row: (n) => ({
        user_id: owner,
        title: text(n),
        status: ['draft', 'published', 'archived'][n % 3],
        published_at: n % 3 === 0 ? null : at(n >> 1),
        created_at: at(n),
        updated_at: at(n >> 2),
      }),
    },
    {
      path: '/products',
      table: 'products',
      sorts: ['name', 'sku', 'price_amount', 'created_at'],
      everyValue: 'currency=USD,EUR,JPY',
      row: (n) => ({
        name: text(n),
        price_amount: n % 4,
        currency: ['USD', 'EUR', 'JPY'][n % 3],
        created_at: at(n),
      }),
    },
    {
      path: '/orders',
      table: 'orders',
      sorts: ['number', 'total_amount', 'created_at', 'updated_at'],
      everyValue: 'status=pending,paid,shipped&total_amount_min=0',
      row: (n) => ({
        user_id: owner,
        status: ['pending', 'paid', 'shipped'][n % 3],
        total_amount: [0, 9, 10, 9_007_199_254_740_991][n % 4],
        created_at: at(n),
        updated_at: at(n >> 2),
      }),
    },
  ]
}
