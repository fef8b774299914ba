/** `POST /batches` runs writes in one transaction: each as a request of its own would be, all of them or none. */
import t from 'tap'
import { type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { listViolations } from '../../../testing/helpers/replies.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { createUniqueName, newProduct } from '../../../testing/helpers/versioned-client.ts'

const shared = await createSharedDatabase(t)
const statements = overhear(shared)
const { admin, anybody, person } = await testApp(t, {}, { database: statements.database })

const post = (path: string, body: Json): Json => ({ method: 'POST', path, body })
const run = (operations: Json[], headers = {}): Promise<Reply> =>
  admin.post('/batches', { operations }, headers)
const getResults = ({ body, text }: Reply): Json[] => body.data?.results ?? t.comment(text)
const patch = (path: string, body: Json): Json => ({ method: 'PATCH', path, body })
const remove = (path: string): Json => ({ method: 'DELETE', path })
/** Returns the changes of a request, in their order. */
const readOwnChanges = async ({ headers }: Reply) =>
  (await readChanges(shared)).filter(({ request_id }) => request_id === headers.get('x-request-id'))
const countProducts = async () =>
  Number((await shared.run('select count(*) as count from products'))[0]?.count)

t.test('the results are what each operation alone would have responded with', async (t) => {
  for (const version of [1, 2]) {
    const base = `/api/v${version}`
    const alone = await admin.post(`${base}/products`, newProduct())
    const { id } = alone.body.data
    const first = newProduct({ stock: 5, status: 'active' })
    const reply = await admin.post(`${base}/batches`, {
      operations: [
        post('/products', first),
        patch('/products/$0', { stock: 7 }),
        post('/orders', { items: [{ product_id: '$0', quantity: 2 }] }),
        { method: 'PUT', path: `/products/${id}`, body: newProduct() },
        post('/users/me/posts', { title: 'A', body: 'B' }),
        remove(`/products/${id}`),
      ],
    })
    t.equal(reply.status, 200, reply.text)
    const [created, changed, order, replaced, written, removed] = getResults(reply)
    t.equal(created.status, 201)
    t.equal(created.location, `${base}/products/${created.body.id}`)
    t.same(Object.keys(created.body), Object.keys(alone.body.data))
    t.equal(changed.body.id, created.body.id)
    t.match({ status: changed.status, location: changed.location }, { status: 200, location: null })
    const attributes = (body: Json) => body.attributes ?? body
    t.equal(attributes(changed.body).stock, 7)
    t.equal(attributes(order.body).items[0].product_id, created.body.id)
    t.equal(replaced.body.id, id)
    t.match(written.location, /\/users\/[0-9a-f-]+\/posts\/[0-9a-f-]+$/)
    t.same(removed, { status: 204, location: null, etag: null, body: null })
    const now = await admin.get(`${base}/products/${created.body.id}`)
    t.same(attributes(now.body.data).stock, 5, 'the order has taken its stock')
    t.equal((await admin.get(`${base}/products/${id}`)).status, 404)
    const orderNow = await admin.get(order.location)
    t.same(orderNow.body.data, order.body)
    t.equal(orderNow.headers.get('etag'), order.etag)
    t.type(reply.body.meta.timestamp, 'string')
  }
})

t.test('what is wrong with the operations is reported for all of them, in their order', async (t) => {
  const count = await countProducts()
  const reply = await run([
    post('/products', newProduct()),
    post('/products', newProduct({ price_amount: -1, color: 'red' })),
    post('/nothing', {}),
    post('/products?limit=1', newProduct()),
    post('/api/v1/products', newProduct()),
    { method: 'PUT', path: '/products', body: {} },
    patch('/products/$7', { stock: '7' }),
    patch('/products/$7', { stock: 7 }),
    post('/orders', { items: [{ product_id: '$2', quantity: 0 }] }),
    { method: 'DELETE', path: `/products/${UNKNOWN_ID}`, body: {} },
    { method: 'POST', path: '/products' },
    { method: 'GET', path: '/products' },
    post('/batches', { operations: [] }),
    post('/api-keys', { name: 'a', scopes: ['*'] }),
    post('/tokens', {}),
  ])
  t.equal(reply.status, 422)
  t.same(listViolations(reply), [
    'operations.1.body.color UNKNOWN_FIELD',
    'operations.1.body.price_amount OUT_OF_RANGE',
    'operations.2.path NOT_FOUND',
    'operations.3.path NOT_FOUND',
    'operations.4.path NOT_FOUND',
    'operations.5.method INVALID_VALUE',
    'operations.6.path INVALID_VALUE',
    'operations.6.body.stock INVALID_TYPE',
    'operations.7.path INVALID_VALUE',
    'operations.8.body.items.0.product_id INVALID_VALUE',
    'operations.8.body.items.0.quantity OUT_OF_RANGE',
    'operations.9.body UNKNOWN_FIELD',
    'operations.10.body REQUIRED',
    'operations.11.method INVALID_VALUE',
    'operations.12.path NOT_FOUND',
    'operations.13.path NOT_FOUND',
    'operations.14.path NOT_FOUND',
  ])
  t.equal(await countProducts(), count)
})

t.test('a missing role or scope is FORBIDDEN at the path', async (t) => {
  const member = await person('member')
  const reader = await person('admin', ['users:read', 'products:read'])
  for (const { client } of [member, reader]) {
    const reply = await client.post('/batches', {
      operations: [post('/products', newProduct({ stock: 'x' }))],
    })
    t.equal(reply.status, 422)
    t.same(listViolations(reply), ['operations.0.path FORBIDDEN'])
  }
  t.equal((await anybody.post('/batches', { operations: [post('/products', newProduct())] })).status, 401)
})

t.test('the first operation that fails decides, and nothing is written', async (t) => {
  const taken = newProduct()
  await admin.post('/products', taken)
  const count = await countProducts()
  const others = Array.from({ length: 20 }, () => post('/products', newProduct()))
  const cases: [last: Json, status: number, violation: string][] = [
    [post('/products', newProduct({ sku: taken.sku })), 409, '.body.sku ALREADY_EXISTS'],
    [post('/products', newProduct({ sku: others[3].body.sku })), 409, '.body.sku ALREADY_EXISTS'],
    [patch(`/products/${UNKNOWN_ID}`, {}), 404, ' NOT_FOUND'],
    [patch('/products/none', {}), 404, ' NOT_FOUND'],
    [patch('/orders/$0', {}), 404, ' NOT_FOUND'],
    [{ method: 'DELETE', path: '/products/$0', if_match: '"9-abcdefghijkl"' }, 412, ' INVALID_VALUE'],
    [
      post('/orders', { items: [{ product_id: '$0', quantity: 1 }] }),
      422,
      '.body.items.0.product_id NOT_FOUND',
    ],
  ]
  for (const [last, status, violation] of cases) {
    const reply = await run([...others, last, post('/products', newProduct({ sku: taken.sku }))])
    t.same([reply.status, listViolations(reply)], [status, [`operations.20${violation}`]], reply.text)
  }
  t.equal(await countProducts(), count)
})

t.test('consecutive creations of a collection are one statement, with events in their order', async (t) => {
  const bodies = Array.from({ length: 100 }, (_, i) => newProduct({ stock: i }))
  statements.take()
  const reply = await run(bodies.map((body) => post('/products', body)))
  t.equal(reply.status, 200, reply.text)
  const inserts = statements.take().statements.filter((text) => text.includes('insert into "products"'))
  t.equal(inserts.length, 1)
  t.same(
    getResults(reply).map(({ body }) => body.stock),
    bodies.map(({ stock }) => stock),
  )
  const events = await readOwnChanges(reply)
  t.same(
    events.map(({ resource_id }) => resource_id),
    getResults(reply).map(({ body }) => body.id),
  )
})

t.test('creations with different fields are one statement too, and each has its own fields', async (t) => {
  const password = 'twelve brass cogs, turning'
  const bodies = [{}, { password }, { role: 'manager' }, { password, status: 'inactive' }, {}].map(
    (fields) => ({
      ...{ name: 'Ada', email: `${createUniqueName('ada')}@example.com` },
      ...fields,
    }),
  )
  statements.take()
  const reply = await run(bodies.map((body) => post('/users', body)))
  t.equal(reply.status, 200, reply.text)
  const inserts = statements.take().statements.filter((text) => text.includes('insert into "users"'))
  t.equal(inserts.length, 1)
  const rows = await shared.run(
    'select email, role, status, password_hash is not null as password from users where id = any($1)',
    [getResults(reply).map(({ body }) => body.id)],
  )
  const byEmail = new Map(rows.map((row) => [row.email, row]))
  for (const { email, ...fields } of bodies) {
    const { role = 'member', status = 'active' } = fields as Json
    t.match(byEmail.get(email), { role, status, password: 'password' in fields })
  }
})

t.test('a created row is read again after an action or a deletion that may have changed it', async (t) => {
  const reply = await run([
    post('/products', newProduct({ stock: 5, status: 'active' })),
    post('/orders', { items: [{ product_id: '$0', quantity: 2 }] }),
    { method: 'PUT', path: '/products/$0', body: newProduct({ stock: 4, status: 'active' }) },
  ])
  t.equal(reply.status, 200, reply.text)
  const replacement = (await readOwnChanges(reply)).find(({ revision }) => revision === 3)
  t.match(replacement?.previous, { stock: 3 }, 'the order has taken two')

  const removed = await run([
    post('/users', { name: 'Ada', email: `${createUniqueName('ada')}@example.com` }),
    post('/users/$0/posts', { title: 'A', body: 'B' }),
    remove('/users/$0'),
    patch('/users/$0/posts/$1', { title: 'C', body: 'D' }),
  ])
  t.equal(removed.status, 404, removed.text)
  t.match(listViolations(removed), [/^operations\.3/])
})

t.test('events have the order of the operations, those of side effects too', async (t) => {
  const reply = await run([
    post('/products', newProduct({ stock: 5, status: 'active' })),
    post('/users/me/posts', { title: 'A', body: 'B' }),
    post('/orders', { items: [{ product_id: '$0', quantity: 2 }] }),
    patch('/users/me/posts/$1', { title: 'C' }),
    patch('/users/me/posts/$1', { title: 'C' }),
    remove('/orders/$2'),
    remove('/users/me/posts/$1'),
  ])
  t.equal(reply.status, 200, reply.text)
  const events = await readOwnChanges(reply)
  t.same(
    events.map(({ type }) => type),
    [
      ...['products.created', 'posts.created', 'orders.created', 'products.updated', 'posts.updated'],
      ...['orders.deleted', 'products.updated', 'posts.deleted'],
    ],
  )
})

t.test('a repeated batch has its stored response while the caller may write each of its rows', async (t) => {
  const { id: userId, client } = await person('member')
  const product = (await admin.post('/products', newProduct({ status: 'active', stock: 5 }))).body.data
  const items = [{ product_id: product.id, quantity: 1 }]
  const order = (await client.post('/orders', { items })).body.data
  const operations = [
    post('/users/me/posts', { title: 'A', body: 'B' }),
    patch(`/orders/${order.id}`, { note: 'hidden later' }),
  ]
  const header = { 'idempotency-key': createUniqueName('key') }
  const send = () => client.post('/batches', { operations }, header)
  const first = await send()
  t.equal(first.status, 200, first.text)
  const again = await send()
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  t.same(getResults(again), getResults(first))

  const move = (owner: string) =>
    shared.run('update orders set user_id = $1 where id = $2', [owner, order.id])
  await move((await person('member')).id)
  const refused = await send()
  t.same([refused.status, ...listViolations(refused)], [403, 'operations.1 FORBIDDEN'])
  t.equal(refused.headers.get('idempotency-replayed'), null)
  t.notMatch(refused.text, 'hidden later')
  await move(userId)
  t.same(getResults(await send()), getResults(first), 'the response is kept')
})

t.test('Prefer: return=minimal leaves the resources out', async (t) => {
  const reply = await run([post('/products', newProduct())], { prefer: 'respond-async, return=minimal' })
  t.equal(reply.headers.get('preference-applied'), 'return=minimal')
  const [result] = getResults(reply)
  t.equal(result.body, null)
  t.match(result, { status: 201, location: /^\/products\//, etag: /^"1-/ })
})

t.test('a password is hashed, and the credentials of a changed user end', async (t) => {
  const { id, client } = await person('member')
  t.equal((await client.get('/users/me')).status, 200)
  const email = `${createUniqueName('grace')}@example.com`
  const reply = await run([
    post('/users', { name: 'Grace', email, password: 'twelve brass cogs, turning' }),
    patch('/users/$0', { name: 'Grace Hopper' }),
    patch(`/users/${id}`, { status: 'suspended' }),
  ])
  t.equal(reply.status, 200, reply.text)
  t.equal((await client.get('/users/me')).status, 401)
  const grant = { grant_type: 'password', email, password: 'twelve brass cogs, turning' }
  t.equal((await anybody.post('/tokens', grant)).status, 201)
})

t.test('a batch that changes no user leaves the cached credentials of others', async (t) => {
  const { client } = await person('member')
  await client.get('/products')
  await run([post('/products', newProduct()), post('/users/me/posts', { title: 'A', body: 'B' })])
  statements.take()
  t.equal((await client.get('/products')).status, 200)
  t.notOk(statements.take().statements.some((text) => text.includes('from "api_keys"')))
})

t.test('a batch counts as one request per ten operations', async (t) => {
  const limited = await testApp(t, { RATE_LIMIT: '100', RATE_LIMIT_BURST: '100' }, { database: shared })
  const { client } = await limited.person('admin')
  const remaining = async (count: number) => {
    const operations = Array.from({ length: count }, () => post('/products', newProduct()))
    const reply = await client.post('/batches', { operations })
    return Number(reply.headers.get('x-ratelimit-remaining'))
  }
  const start = await remaining(1)
  t.equal(await remaining(10), start - 1)
  t.equal(await remaining(11), start - 3)
})
