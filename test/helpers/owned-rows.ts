/** A row of each collection that belongs to somebody, straight into the database, and sound bodies for it. */
import { v7 as uuid } from 'uuid'
import type { Database } from '../../drizzle/client/index.ts'
import type { Role } from '../../plugins/access/index.ts'
import type { Json } from './app.ts'
import { insertRows, type Values } from './rows.ts'

/** What of a row matters to access: whose it is, and its status. */
export interface RowKind {
  own: boolean
  status?: string
  /** Of whom it belongs to. */
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

  /** There is one per user, so that who has one loses it. */
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

  /** Where the rows of a collection stand; posts under whose they are. */
  const listOf = (collection: string, owner: string) =>
    collection === 'posts' ? `/users/${owner}/posts` : `/${collection}`

  const emailOf = async (id: string) =>
    (await database.run('select email from users where id = $1', [id]))[0]?.email ?? `${short()}@example.com`

  return {
    user,
    listOf,
    /** The id of a new row. */
    async make(collection: string, owner: string, status?: string): Promise<string> {
      const maker = makers[collection]
      if (!maker) throw new Error(`Nobody knows how to make one of ${collection}`)
      return maker(owner, status)
    },
    /** What creates one that belongs to `owner`. */
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
    /** What replaces one of `owner`'s. A user's address stays: one's own new one would need the password. */
    async replacement(collection: string, owner: string): Promise<Json> {
      return {
        users: { name: short(), email: await emailOf(owner) },
        'user-profiles': { bio: short() },
        posts: { title: short(), body: 'b' },
        products: { sku: short(), name: 'changed', price_amount: 1 },
        orders: { note: short(), items: [{ product_id: await product(), quantity: 1 }] },
      }[collection]
    },
    /** What changes something in one, so that nothing passes for want of a change. */
    change(collection: string): Json {
      const members: Record<string, string> = { 'user-profiles': 'bio', posts: 'title', orders: 'note' }
      return { [members[collection] ?? 'name']: short() }
    },
  }
}

export type OwnedRows = ReturnType<typeof createOwnedRows>
