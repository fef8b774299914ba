/** Inserts rows of each collection for an owner, and builds valid bodies for them. */
import { v7 as uuid } from 'uuid'
import type { Database } from '../../drizzle/client/index.ts'
import type { Role } from '../../plugins/access/index.ts'
import type { Json } from './app.ts'
import { insertRows, type Values } from './rows.ts'

/** The properties of a row that access rules depend on. */
export interface RowKind {
  own: boolean
  status?: string
  /** The role of its owner. */
  role?: Role
}

const tomorrow = () => new Date(Date.now() + 86_400_000).toISOString()
const short = () => uuid().slice(-12)

export function createOwnedRows(database: Database) {
  const one = async (table: string, values: Values): Promise<string> =>
    (await insertRows(database, table, [values]))[0] ?? ''
  const product = (status = 'active') => one('products', { stock: 1_000, status })
  const user = (role: Role = 'member') => one('users', { role })

  async function order(owner: string): Promise<string> {
    const product_id = await product()
    const item = { product_id, quantity: 1, sku: 's', name: 'n', unit_amount: 5, total_amount: 5 }
    const id = await one('orders', { user_id: owner, items: JSON.stringify([item]) })
    await database.run('insert into order_products (order_id, product_id) values ($1, $2)', [id, product_id])
    return id
  }

  /** Deletes an existing profile, because a user has one at most. */
  const withoutProfile = (owner: string) =>
    database.run('delete from user_profiles where user_id = $1', [owner])

  async function profile(owner: string): Promise<string> {
    await withoutProfile(owner)
    return one('user_profiles', { user_id: owner })
  }

  const session = (owner: string) =>
    one('sessions', { user_id: owner, refresh_hash: 'x', expires_at: tomorrow(), ends_at: tomorrow() })
  const key = (owner: string) => {
    const text = short()
    const values = { name: 'k', prefix: 'rak_', key_hash: text, scopes: '["*"]', expires_at: tomorrow() }
    return one('api_keys', { user_id: owner, ...values })
  }

  const makers: Record<string, (owner: string, status?: string) => Promise<string>> = {
    users: async (owner) => owner,
    'user-profiles': profile,
    posts: (owner, status = 'draft') => one('posts', { user_id: owner, status }),
    products: (_owner, status) => product(status),
    orders: order,
    sessions: session,
    'api-keys': key,
  }

  /** Returns the path of a collection; posts are below their owner. */
  const listOf = (collection: string, owner: string) =>
    collection === 'posts' ? `/users/${owner}/posts` : `/${collection}`

  const emailOf = async (id: string) =>
    (await database.run('select email from users where id = $1', [id]))[0]?.email ?? `${short()}@example.com`

  return {
    user,
    listOf,
    /** Inserts a row and returns its id. */
    async make(collection: string, owner: string, status?: string): Promise<string> {
      const maker = makers[collection]
      if (!maker) throw new Error(`Rows of ${collection} cannot be inserted`)
      return maker(owner, status)
    },
    /** Returns a body that creates a row of `owner`. */
    async creation(collection: string, owner: string): Promise<Json> {
      if (collection === 'user-profiles') await withoutProfile(owner)
      return {
        users: { name: 'New', email: `${short()}@example.com` },
        'user-profiles': { user_id: owner },
        posts: { title: 't', body: 'b' },
        products: { sku: short(), name: 'n', price_amount: 1 },
        orders: { user_id: owner, items: [{ product_id: await product(), quantity: 1 }] },
        'api-keys': { name: 'k', scopes: ['*'] },
      }[collection]
    },
    /** Returns a body that replaces a row of `owner`. A user's email is kept, because a new one needs the password. */
    async replacement(collection: string, owner: string): Promise<Json> {
      return {
        users: { name: short(), email: await emailOf(owner) },
        'user-profiles': { bio: short() },
        posts: { title: short(), body: 'b' },
        products: { sku: short(), name: 'changed', price_amount: 1 },
        orders: { note: short(), items: [{ product_id: await product(), quantity: 1 }] },
      }[collection]
    },
    /** Returns a body of PATCH that has an effect. */
    change(collection: string): Json {
      const fields: Record<string, string> = { 'user-profiles': 'bio', posts: 'title', orders: 'note' }
      return { [fields[collection] ?? 'name']: short() }
    },
  }
}

export type OwnedRows = ReturnType<typeof createOwnedRows>
