/** The table of docs/access-matrix.json, walked: every route, every caller, rows of one's own, of others, and none. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { hashKey } from '../plugins/keys.ts'
import { type Client, type Person, type TestApp, testApp } from './helpers/app.ts'

type Cell = 'all' | 'own' | 'none' | 'own or published' | 'active'
type Verb = 'list' | 'read' | 'create' | 'replace' | 'update' | 'remove'
type Matrix = Record<string, Partial<Record<Verb, Record<string, Cell>>>>

const matrix: Matrix = JSON.parse(
  readFileSync(new URL('../docs/access-matrix.json', import.meta.url), 'utf8'),
)
const roles = ['member', 'manager', 'admin'] as const

const unique = () => uuid().slice(-12)

/** A row of each collection that belongs to somebody, straight into the database; its path and a sound body. */
function makers({ database }: TestApp) {
  const product = async (status: string) => {
    const id = uuid()
    await database.run(
      'insert into products (id, sku, name, price_amount, stock, status) values ($1, $2, $2, 5, 1000, $3)',
      [id, unique(), status],
    )
    return id
  }
  const user = async () => {
    const id = uuid()
    await database.run('insert into users (id, name, email) values ($1, $2, $3)', [
      id,
      'Some One',
      `${unique()}@example.com`,
    ])
    return id
  }
  return {
    product,
    user,
    async users(owner: string) {
      return `/users/${owner}`
    },
    async 'user-profiles'(owner: string) {
      const id = uuid()
      await database.run('delete from user_profiles where user_id = $1', [owner])
      await database.run('insert into user_profiles (id, user_id) values ($1, $2)', [id, owner])
      return `/user-profiles/${id}`
    },
    async posts(owner: string, status = 'draft') {
      const id = uuid()
      await database.run('insert into posts (id, user_id, title, body, status) values ($1, $2, $3, $3, $4)', [
        id,
        owner,
        'title',
        status,
      ])
      return `/users/${owner}/posts/${id}`
    },
    async products(_owner: string, status = 'draft') {
      return `/products/${await product(status)}`
    },
    async orders(owner: string) {
      const [id, item] = [uuid(), await product('active')]
      const items = [{ product_id: item, quantity: 1, sku: 's', name: 'n', unit_amount: 5, total_amount: 5 }]
      await database.run(
        `insert into orders (id, user_id, items, currency, total_amount) values ($1, $2, $3, 'USD', 5)`,
        [id, owner, JSON.stringify(items)],
      )
      await database.run('insert into order_products (order_id, product_id) values ($1, $2)', [id, item])
      return `/orders/${id}`
    },
    async sessions(owner: string) {
      const id = uuid()
      await database.run(
        `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at)
         values ($1, $2, 'x', now() + interval '1 day', now() + interval '1 day')`,
        [id, owner],
      )
      return `/sessions/${id}`
    },
    async 'api-keys'(owner: string) {
      const id = uuid()
      await database.run(
        `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
         values ($1, $2, 'k', 'rak_', $3, '["*"]', now() + interval '1 day')`,
        [id, owner, unique()],
      )
      return `/api-keys/${id}`
    },
  }
}

type Makers = ReturnType<typeof makers>
type Collection = 'users' | 'user-profiles' | 'posts' | 'products' | 'orders' | 'sessions' | 'api-keys'
const collections: Collection[] = [
  'users',
  'user-profiles',
  'posts',
  'products',
  'orders',
  'sessions',
  'api-keys',
]

const listPath = (collection: Collection, owner: string) =>
  collection === 'posts' ? `/users/${owner}/posts` : `/${collection}`

/** A body that creates one for `owner`, and one that replaces or changes what `path` names. */
async function bodies(make: Makers, collection: Collection, owner: string) {
  const item = { items: [{ product_id: await make.product('active'), quantity: 1 }] }
  return {
    users: { create: { name: 'New', email: `${unique()}@example.com` }, change: { name: 'Changed' } },
    'user-profiles': { create: { user_id: owner }, change: { bio: 'changed' } },
    posts: { create: { title: 't', body: 'b' }, change: { title: 'changed', body: 'b' } },
    products: {
      create: { sku: unique(), name: 'n', price_amount: 1 },
      change: { sku: unique(), name: 'changed', price_amount: 1 },
    },
    orders: { create: { user_id: owner, ...item }, change: { note: 'changed' } },
    sessions: { create: {}, change: {} },
    'api-keys': { create: { name: 'k', scopes: ['*'] }, change: { name: 'changed' } },
  }[collection]
}

/** Calls one operation on a row of `owner`'s; a missing row where there is no owner. */
async function call(
  make: Makers,
  client: Client,
  collection: Collection,
  verb: Verb,
  owner: string,
  missing = false,
  status?: string,
) {
  const { create, change } = await bodies(make, collection, owner)
  if (verb === 'list') return client.get(listPath(collection, owner))
  if (verb === 'create') {
    if (collection === 'user-profiles')
      await make['user-profiles'](owner).then((path) => removeProfile(make, path))
    return client.post(listPath(collection, owner), create)
  }
  const made = missing ? `${listPath(collection, owner)}/${uuid()}` : await make[collection](owner, status)
  if (verb === 'read') return client.get(made)
  if (verb === 'remove') return client.delete(made)
  if (verb === 'update') return client.patch(made, change)
  const whole: Record<string, unknown> = { ...create, ...change }
  if (collection === 'users') whole.email = `${unique()}@example.com`
  return client.put(made, whole)
}

let removeProfile: (make: Makers, path: string) => Promise<void> = async () => {}

t.test('every route, every caller, every kind of row', async (t) => {
  const app = await testApp(t)
  const make = makers(app)
  removeProfile = async (_make, path) => {
    await app.database.run('delete from user_profiles where id = $1', [path.split('/').at(-1) ?? ''])
  }
  const people = new Map<string, Person>()
  for (const role of roles) people.set(role, await app.person(role))
  const success: Record<Verb, number> = {
    list: 200,
    read: 200,
    create: 201,
    replace: 200,
    update: 200,
    remove: 204,
  }

  for (const collection of collections) {
    for (const [name, cells] of Object.entries(matrix[collection] ?? {})) {
      const verb = name as Verb
      for (const role of roles) {
        const cell = cells[role]
        const ok = success[verb]
        const expected = (own: boolean) =>
          cell === 'all' || (own && (cell === 'own' || cell === 'own or published')) ? ok : 403
        const person = await app.person(role)
        const stranger = await make.user()
        const title = (what: string) => `${role} ${verb} ${collection}: ${what}`
        const client = person.bearer

        if (verb === 'list') {
          const reply = await call(make, client, collection, verb, person.id)
          t.equal(reply.status, cell === 'none' ? 403 : 200, title('the list'))
          continue
        }
        // One's own name may be changed; one's own e-mail address needs the password, and stays as it is.
        const isOwnUser = collection === 'users' && verb === 'replace'
        if (!isOwnUser && !(collection === 'users' && verb === 'remove') && collection !== 'products') {
          const own = await call(make, client, collection, verb, person.id)
          t.equal(own.status, expected(true), `${title('own')} ${own.text}`)
        }
        if (
          !(verb === 'create' && ['users', 'products', 'api-keys'].includes(collection)) &&
          collection !== 'products'
        ) {
          const foreign = await call(make, client, collection, verb, stranger)
          t.equal(foreign.status, expected(false), `${title('foreign')} ${foreign.text}`)
        }
        if (collection === 'products') {
          const draft = await call(make, client, collection, verb, person.id, false, 'draft')
          t.equal(draft.status, cell === 'all' ? ok : 403, title('draft'))
          const active = await call(make, client, collection, verb, person.id, false, 'active')
          t.equal(active.status, cell === 'none' ? 403 : ok, title('active'))
        }
        if (cell === 'own or published') {
          const published = await call(make, client, collection, verb, stranger, false, 'published')
          t.equal(published.status, ok, title('published'))
        }
        if (verb !== 'create') {
          const missing = await call(make, client, collection, verb, person.id, true)
          t.equal(missing.status, cell === 'none' ? 403 : 404, title('missing'))
        }
      }

      const member = await app.person('admin', [`${collection}:read`])
      const writer = await app.person('admin', [`${collection}:write`])
      const reads = verb === 'list' || verb === 'read'
      const keyless = collection === 'sessions' || collection === 'api-keys'
      const target = () => (collection === 'users' ? make.user() : Promise.resolve(member.id))
      const ofReader = await call(make, member.client, collection, verb, await target())
      const ofWriter = await call(
        make,
        writer.client,
        collection,
        verb,
        collection === 'users' ? await make.user() : writer.id,
      )
      t.equal(
        ofReader.status,
        reads && !keyless ? success[verb] : 403,
        `a key with ${collection}:read, ${verb}`,
      )
      t.equal(
        ofWriter.status,
        !reads && !keyless ? success[verb] : 403,
        `a key with ${collection}:write, ${verb} ${ofWriter.text}`,
      )

      t.equal(
        (await call(make, app.anybody, collection, verb, member.id)).status,
        401,
        `nobody, ${verb} ${collection}`,
      )

      const revoked = await app.person('admin')
      await app.database.run('delete from api_keys where key_hash = $1', [hashKey(revoked.key)])
      t.equal(
        (await call(make, revoked.client, collection, verb, revoked.id)).status,
        401,
        `a revoked key, ${verb} ${collection}`,
      )

      const suspended = await app.person('admin')
      await app.database.run(`update users set status = 'suspended' where id = $1`, [suspended.id])
      const { bearer, client } = suspended
      t.equal(
        (await call(make, bearer, collection, verb, suspended.id)).status,
        401,
        `a suspended user, ${verb} ${collection}`,
      )
      t.equal(
        (await call(make, client, collection, verb, suspended.id)).status,
        401,
        `a suspended user's key, ${verb} ${collection}`,
      )
    }
  }
})
