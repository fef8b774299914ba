/** With `?dry_run=true`, a write answers as it would, and leaves nothing: no row, event, mail, key, lock or wake-up. */
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { resources } from '../../../../src/resources.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { NDJSON } from '../../../testing/helpers/imports.ts'
import { createMailFiles } from '../../../testing/helpers/mails.ts'
import { listViolations } from '../../../testing/helpers/replies.ts'
import { replaceResource } from '../../../testing/helpers/serve.ts'
import { productsResource } from '../../../testing/helpers/shop.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { createUniqueName, newProduct, VERSIONS } from '../../../testing/helpers/versioned-client.ts'
import { recordWriter } from '../../src/operations/context.ts'
import { defineResource } from '../../src/routes/plugin.ts'
import { action } from '../../src/routes/routes.ts'

/** What actions have seen of their store. */
const seen: boolean[] = []
const access = { restockings: { access: { admin: true } }, payments: { access: { admin: true } } }
const adopted = replaceResource(resources, 'products', (plugin) =>
  defineResource(
    { ...productsResource, operations: { ...productsResource.operations, ...access } },
    async (app, resource) => {
      await plugin(app, {})
      const texts = (operationId: string) => ({ operationId, summary: 'Act', description: 'Acts.' })
      app.post(
        '/products/:id/restockings',
        action(resource, 'restockings', texts('restockProduct'), async ({ store, current }) => {
          seen.push(store.isDryRun)
          await store.mail?.enqueue(store.connection, { template: 'password-changed', recipient: 'a@b.co' })
          return store.update(current, { stock: Number(current.stock) + 1 })
        }),
      )
      const payment = { ...texts('payProduct'), hasDryRun: false }
      app.post(
        '/products/:id/payments',
        action(resource, 'payments', payment, async ({ current }) => current),
      )
    },
  ),
)

const shared = await createSharedDatabase(t)
const statements = overhear(shared)
const mails = createMailFiles(t)
const { admin, anybody, app, person } = await testApp(
  t,
  { ...mails.settings, ALLOW_SIGNUP: 'true', WEBHOOK_PRIVATE_ADDRESSES: 'true' },
  { database: statements.database, resources: adopted },
)
let wakeUps = 0
app.outbox.subscribe(() => {
  wakeUps += 1
})

/** Work in the background moves events to the feed, and sends the mails of real writes. */
const BACKGROUND = ['event_feed', 'events', 'outbox', 'work']

/** Returns a text for the rows of each table, apart from when credentials were last used, and the number of events. */
async function takeSnapshot() {
  const tables = await shared.run(
    `select table_name::text as name from information_schema.tables
      where table_schema = current_schema and table_type = 'BASE TABLE' order by 1`,
  )
  const own = tables.filter(({ name }) => !BACKGROUND.includes(String(name)))
  const rows = own.map(async ({ name }) => {
    const text = `select md5(string_agg((to_jsonb(each) - 'last_used_at')::text, ',' order by to_jsonb(each)::text))`
    const [row] = await shared.run(`${text} as hash from "${name}" as each`)
    return [name, row?.hash]
  })
  const [events] = await shared.run(
    'select (select count(*) from events) + (select count(*) from outbox) as count',
  )
  return { ...Object.fromEntries(await Promise.all(rows)), events: events?.count }
}

/** Runs dry runs, and checks that nothing is left. */
async function leavesNothing<T>(t: Test, work: () => Promise<T>): Promise<T> {
  const before = await takeSnapshot()
  const woken = wakeUps
  const result = await work()
  t.equal(wakeUps, woken, 'no consumer is woken')
  t.same(await takeSnapshot(), before, 'no row is left')
  return result
}

/** Returns whether a mail was enqueued since the last call. The sequencer enqueues deliveries at any time. */
const hasEnqueued = () =>
  statements
    .take()
    .statements.some((text) => /insert into "?work/i.test(text) && !text.includes("'delivery'"))

const toTrial = (path: string) => `${path}?dry_run=true`
/** Returns the fields of a resource but its id and times. */
const getFields = ({ body: { data } }: Reply): Json => {
  const entries = Object.entries({ ...data, ...data.attributes })
  return Object.fromEntries(entries.filter(([name]) => !/^(id|attributes)$|_at$/.test(name)))
}
const newUser = () => ({ name: 'Ada', email: `${createUniqueName('ada')}@example.com` })
const create = async (path: string, body: Json): Promise<Json> => (await admin.post(path, body)).body.data

t.test('each write answers as it would, without ETag and Location', async (t) => {
  for (const version of VERSIONS) {
    const base = `/api/v${version}`
    const { id } = await create(`${base}/products`, newProduct({ stock: 9, status: 'active' }))
    const product = newProduct()
    const order = { items: [{ product_id: id, quantity: 2 }] }
    const path = `${base}/products/${id}`
    const writes: [method: string, path: string, body?: Json][] = [
      ['POST', `${base}/products`, product],
      ['PUT', path, newProduct({ stock: 8, status: 'active' })],
      ['PATCH', path, { stock: 7 }],
      ['POST', `${base}/products/${id}/restockings`],
      ['POST', `${base}/users/me/posts`, { title: 'A', body: 'B', status: 'published' }],
      ['POST', `${base}/users`, newUser()],
      ['PATCH', `${base}/users/me`, { name: 'Other' }],
    ]
    for (const [method, url, body] of writes) {
      const trial = await leavesNothing(t, () => admin.call(method, toTrial(url), { body }))
      const real = await admin.call(method, url, { body })
      t.equal(trial.status, real.status, `${method} ${url} ${trial.text}`)
      t.same(getFields(trial), getFields(real))
      t.same([real.body.meta.dry_run, trial.body.meta.dry_run], [undefined, true])
      t.same([trial.headers.get('etag'), trial.headers.get('location')], [null, null])
      t.equal(trial.headers.get('cache-control'), 'no-store')
    }
    const ordered = await leavesNothing(t, () => admin.post(toTrial(`${base}/orders`), order))
    t.equal(ordered.status, 201, 'an order takes its stock in the trial alone')
    t.equal(getFields(await admin.get(path)).stock, 8)
    const removed = await leavesNothing(t, () => admin.delete(toTrial(path)))
    t.same([removed.status, removed.body.data, removed.body.meta.dry_run], [200, null, true])
    t.equal((await admin.delete(path)).status, 204)
  }
})

t.test('each error is that of the write', async (t) => {
  const taken = await create('/products', newProduct())
  const { id } = await create('/products', newProduct())
  const { client } = await person('member')
  const calls: [by: Client, method: string, path: string, body: Json, headers?: Record<string, string>][] = [
    [admin, 'POST', '/products', newProduct({ sku: taken.sku })],
    [admin, 'POST', '/products', newProduct({ price_amount: -1 })],
    [admin, 'POST', '/products', []],
    [admin, 'PATCH', `/products/${UNKNOWN_ID}`, { stock: 1 }],
    [admin, 'PATCH', `/products/${id}`, { sku: taken.sku }],
    [admin, 'PATCH', `/products/${id}`, { stock: 1 }, { 'if-match': '"99-a"' }],
    [admin, 'POST', '/orders', { items: [{ product_id: id, quantity: 1 }] }],
    [client, 'PATCH', `/products/${id}`, { stock: 1 }],
    [anybody, 'DELETE', `/products/${id}`, undefined],
  ]
  for (const [by, method, path, body, headers = {}] of calls) {
    const trial = await leavesNothing(t, () => by.call(method, toTrial(path), { body, headers }))
    const real = await by.call(method, path, { body, headers })
    const getError = ({ status, body: { error } }: Reply) => ({ ...error, status, request_id: '' })
    t.ok(trial.status >= 400, `${method} ${path} ${trial.text}`)
    t.same(getError(trial), getError(real))
  }
})

t.test('only true and false are values, and an Idempotency-Key is refused', async (t) => {
  const before = await takeSnapshot()
  for (const value of ['1', 'TRUE', '', 'yes', 'true&dry_run=true']) {
    const reply = await admin.post(`/products?dry_run=${value}`, newProduct())
    t.match([reply.status, reply.body.error.code], [400, 'VALIDATION_ERROR'], value)
    t.match(listViolations(reply).join(), /^dry_run /)
  }
  const key = { 'idempotency-key': createUniqueName('key') }
  const { id } = await admin.get('/users/me').then(({ body }) => body.data)
  for (const [method, path, body] of [
    ['POST', '/products', newProduct()],
    ['POST', '/products', newProduct({ price_amount: 'x' })],
    ['PATCH', `/users/${id}`, { name: 'Other' }],
    ['PATCH', '/products/none', { stock: 1 }],
    ['POST', '/batches', { operations: [{ method: 'POST', path: '/products', body: newProduct() }] }],
  ] as const) {
    const reply = await admin.call(method, toTrial(path), { body, headers: key })
    t.match([reply.status, reply.body.error.code], [400, 'INVALID_REQUEST'], `${method} ${path}`)
  }
  t.same(await takeSnapshot(), before)
  const { id: product } = await create('/products?dry_run=false', newProduct())
  t.equal((await admin.delete(toTrial(`/products/${product}`), key)).status, 200, 'DELETE reads no key')
  const changed = await admin.put(toTrial(`/products/${product}`), newProduct(), key)
  t.equal(changed.status, 200, 'PUT reads no key')
  const kept = await admin.patch(`/products/${product}?dry_run=false`, { stock: 3 }, key)
  t.equal(kept.body.data.stock, 3, 'false is the same as absent')
  t.equal(kept.body.meta.dry_run, undefined)
})

t.test('credentials, and what is sent at once, have no dry run', async (t) => {
  const { bearer, sessionId } = await person('admin')
  const draft = { url: 'http://127.0.0.1:9', event_types: ['*'], status: 'disabled' }
  const { body } = await bearer.post('/webhook-endpoints', draft)
  const endpoint = `/webhook-endpoints/${body.data.id}`
  const { id } = await create('/products', newProduct())
  for (const value of ['true', 'false', 'x'])
    for (const [method, path, sent] of [
      ['POST', '/tokens', { grant_type: 'password', email: 'a@b.co', password: 'x' }],
      ['DELETE', `/sessions/${sessionId}`],
      ['POST', '/api-keys', { name: 'a', scopes: ['*'] }],
      ['POST', '/password-resets', { email: 'a@b.co' }],
      ['POST', '/email-verifications', {}],
      ['POST', `${endpoint}/secrets`, {}],
      ['POST', `${endpoint}/deliveries`, { test: true }],
      ['POST', `${endpoint}/replays`, { since: new Date().toISOString() }],
      ['POST', `/products/${id}/payments`, {}],
    ] as const) {
      const reply = await bearer.call(method, `${path}?dry_run=${value}`, { body: sent })
      t.same(
        [reply.status, ...listViolations(reply)],
        [400, 'dry_run UNKNOWN_PARAMETER'],
        `${method} ${path}`,
      )
    }
  const trial = await leavesNothing(t, () => bearer.post(toTrial('/webhook-endpoints'), draft))
  t.same([trial.status, trial.body.data.secret], [201, null], 'the dry run of an endpoint shows no secret')
})

t.test('a batch answers as it would', async (t) => {
  const { id } = await create('/products', newProduct({ stock: 5, status: 'active' }))
  for (const version of VERSIONS) {
    const operations = [
      { method: 'POST', path: '/products', body: newProduct() },
      { method: 'PATCH', path: '/products/$0', body: { stock: 7 } },
      { method: 'POST', path: '/orders', body: { items: [{ product_id: id, quantity: 5 }] } },
      { method: 'POST', path: '/users', body: newUser() },
      { method: 'DELETE', path: '/products/$0' },
    ]
    const reply = await leavesNothing(t, () => admin.post(toTrial(`/v${version}/batches`), { operations }))
    t.equal(reply.status, 200, reply.text)
    const { results } = reply.body.data
    t.same(
      results.map(({ status, location, etag }: Json) => [status, location, etag]),
      [201, 200, 201, 201, 204].map((status) => [status, null, null]),
    )
    t.equal(results[1].body.id, results[0].body.id)
    t.equal(results[4].body, null)
    t.equal(reply.body.meta.dry_run, true)
    const failing = [...operations, { method: 'PATCH', path: `/products/${UNKNOWN_ID}`, body: { stock: 1 } }]
    const failed = await leavesNothing(t, () => admin.post(toTrial('/batches'), { operations: failing }))
    t.same([failed.status, ...listViolations(failed)], [404, 'operations.5 NOT_FOUND'])
  }
})

t.test('an import answers as it would', async (t) => {
  const body = [newProduct(), newProduct()].map((row) => `${JSON.stringify(row)}\n`).join('')
  const send = () => admin.call('POST', toTrial('/products'), { headers: NDJSON, body })
  const reply = await leavesNothing(t, send)
  t.same(reply.body.data, { created: 2, updated: 0, unchanged: 0 })
  t.equal(reply.body.meta.dry_run, true)
})

t.test('an action knows that it is tried', async (t) => {
  const { id } = await create('/products', newProduct())
  seen.length = 0
  statements.take()
  await admin.post(toTrial(`/products/${id}/restockings`), {})
  t.notOk(hasEnqueued())
  await admin.post(`/products/${id}/restockings`, {})
  t.ok(hasEnqueued())
  t.same(seen, [true, false])
})

t.test('no mail is sent: of an invitation, a sign-up, a new password', async (t) => {
  const user = newUser()
  const ada = await admin.post('/users', { ...user, password: 'correct horse battery 1' })
  const path = `/users/${ada.body.data.id}`
  statements.take()
  await leavesNothing(t, async () => {
    t.equal((await admin.post(toTrial('/users'), newUser())).status, 201)
    const signUp = { ...newUser(), password: 'correct horse battery 2' }
    t.equal((await anybody.post(toTrial('/users'), signUp)).status, 201)
    t.equal((await anybody.post(toTrial('/users'), { ...signUp, email: user.email })).status, 201)
    t.equal((await admin.patch(toTrial(path), { password: 'correct horse battery 3' })).status, 200)
  })
  t.notOk(hasEnqueued())
  t.equal((await admin.post('/users', newUser())).status, 201)
  t.ok(hasEnqueued(), 'as the invitation of a real user is')
})

t.test('where no mails are sent, a dry run answers as the write does', async (t) => {
  const settings = { NODE_ENV: 'production', ALLOW_SIGNUP: 'true', INSECURE_HTTP: 'true' }
  const { admin, anybody } = await testApp(t, settings)
  const user = newUser()
  t.equal((await admin.post('/users', user)).status, 201)
  const signUp = { ...user, password: 'correct horse battery 2' }
  for (const path of ['/users', toTrial('/users')])
    t.equal((await anybody.post(path, signUp)).status, 409, path)
})

t.test('credentials stay cached, and no one is taken for a writer', async (t) => {
  const { id, client } = await person('manager')
  await client.get('/users/me')
  statements.take()
  t.equal((await admin.patch(toTrial(`/users/${id}`), { status: 'suspended' })).status, 200)
  t.equal((await admin.delete(toTrial(`/users/${id}`))).status, 200)
  statements.take()
  t.equal((await client.get('/users/me')).status, 200)
  t.notOk(
    statements.take().statements.some((text) => /key_hash/.test(text)),
    'the key is not looked up again',
  )

  const writers: string[] = []
  const replicas = { recentWriters: { publish: async (writer: string) => void writers.push(writer) } }
  // What the function reads of them.
  for (const dry_run of [true, false]) {
    const config = { hasDryRun: true }
    const request = { actor: { userId: String(dry_run) }, query: { dry_run }, routeOptions: { config } }
    await recordWriter(
      replicas as unknown as NonNullable<Database['replicas']>,
      request as unknown as FastifyRequest,
    )
  }
  t.same(writers, ['false'])
})

t.test('it counts in the limits as the write does', async (t) => {
  const settings = { RATE_LIMIT: '100', RATE_LIMIT_BURST: '100' }
  const limited = await testApp(t, settings)
  const read = ({ headers }: Reply) => Number(headers.get('x-ratelimit-remaining'))
  const operations = Array.from({ length: 21 }, () => ({
    method: 'POST',
    path: '/products',
    body: newProduct(),
  }))
  const first = read(await limited.admin.post(toTrial('/batches'), { operations }))
  t.equal(read(await limited.admin.post(toTrial('/products'), newProduct())), first - 1)
  t.equal(read(await limited.admin.post('/batches', { operations })), first - 4)
})

t.test('dry runs of batches beside real ones: what is tried does not count', async (t) => {
  const made = Array.from({ length: 10 }, () =>
    create('/products', newProduct({ stock: 1000, status: 'active' })),
  )
  const ids = (await Promise.all(made)).map(({ id }) => id)
  const operations = (order: readonly string[]) =>
    order.flatMap((product_id) =>
      Array.from({ length: 10 }, () => ({
        method: 'POST',
        path: '/orders',
        body: { items: [{ product_id, quantity: 1 }] },
      })),
    )
  const batches = [ids, ids.toReversed()].flatMap((order) => [
    admin.post(toTrial('/batches'), { operations: operations(order) }),
    admin.post('/batches', { operations: operations(order) }),
  ])
  for (const reply of await Promise.all(batches)) t.equal(reply.status, 200, reply.text.slice(0, 300))
  for (const id of ids) t.equal((await admin.get(`/products/${id}`)).body.data.stock, 1000 - 2 * 10)
  const [orders] = await shared.run("select count(*)::int as count from orders where items @> '[{}]'")
  t.ok(Number(orders?.count) >= 200)
  // No lock is left: each row can be changed immediately.
  const changed = await Promise.all(ids.map((id) => admin.patch(`/products/${id}`, { stock: 1 })))
  t.ok(changed.every(({ status }) => status === 200))
})
