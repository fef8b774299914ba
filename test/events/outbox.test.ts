/** Each change of a resource writes one event, in the transaction of the change. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { countTypes, readChanges } from '../helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'

const PRODUCT = { name: 'Tea', price_amount: 500, stock: 10, status: 'active' }
let made = 0
const makeProduct = (values: object = {}) => ({ ...PRODUCT, sku: `tea-${++made}`, ...values })

t.test(
  'the changes of a product are events with its columns, its revisions and the former values',
  async (t) => {
    const { admin, adminId, database } = await testApp(t)
    const { data } = (
      await admin.post('/products', makeProduct({ stock: 3 }), { 'x-request-id': 'first-request' })
    ).body
    await admin.patch(`/products/${data.id}`, { stock: 4 })
    await admin.patch(`/products/${data.id}`, { name: 'Green tea', description: 'From Uji' })
    await admin.put(`/products/${data.id}`, { ...data, name: 'Black tea' })
    await admin.delete(`/products/${data.id}`)

    const events = await readChanges(database, data.id)
    t.strictSame(
      events.map(({ type, revision, previous, owner_id }) => [type, revision, previous, owner_id]),
      [
        ['products.created', 1, null, null],
        ['products.updated', 2, { stock: 3 }, null],
        ['products.updated', 3, { name: 'Tea', description: null }, null],
        ['products.updated', 4, { name: 'Green tea', description: 'From Uji', stock: 4 }, null],
        ['products.deleted', 5, null, null],
      ],
    )
    t.strictSame(
      events.map(({ columns }) => [columns.name, columns.stock]),
      [
        ['Tea', 3],
        ['Tea', 4],
        ['Green tea', 4],
        ['Black tea', 3],
        ['Black tea', 3],
      ],
    )
    for (const event of events) {
      t.match(event, {
        actor_id: adminId,
        credential: 'bootstrap_key',
        credential_id: null,
      })
      t.notOk('search' in event.columns)
    }
    t.ok(events.every(({ request_id }) => typeof request_id === 'string'))
  },
)

t.test('a change without effect, and a change that fails, write no event', async (t) => {
  const { admin, database } = await testApp(t)
  const { data } = (await admin.post('/products', makeProduct())).body
  const before = (await readChanges(database)).length
  t.equal((await admin.patch(`/products/${data.id}`, { stock: 10 })).status, 200)
  t.equal((await admin.patch(`/products/${data.id}`, { name: 'Tea' })).status, 200)
  t.equal((await admin.put(`/products/${data.id}`, data)).status, 200)
  t.equal((await admin.post('/products', { ...makeProduct(), sku: data.sku })).status, 409)
  t.equal((await admin.patch(`/products/${data.id}`, { stock: 1 }, { 'if-match': '"9-x"' })).status, 412)
  t.equal((await readChanges(database)).length, before)
})

t.test('a write with an Idempotency-Key writes its event once', async (t) => {
  const { admin, database } = await testApp(t)
  const product = makeProduct()
  const headers = { 'idempotency-key': 'key-1' }
  const { data } = (await admin.post('/products', product, headers)).body
  await admin.post('/products', product, headers)
  await admin.patch(`/products/${data.id}`, { stock: 5 }, { 'idempotency-key': 'key-2' })
  await admin.patch(`/products/${data.id}`, { stock: 5 }, { 'idempotency-key': 'key-2' })
  t.equal(countTypes(await readChanges(database, data.id)), 'products.created, products.updated')
})

t.test('the stock that an order takes and returns is an event of each product', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const [first, second] = [
    (await admin.post('/products', makeProduct())).body.data,
    (await admin.post('/products', makeProduct())).body.data,
  ]
  const items = [
    { product_id: first.id, quantity: 2 },
    { product_id: second.id, quantity: 3 },
  ]
  const order = (await admin.post('/orders', { items })).body.data
  await admin.patch(`/orders/${order.id}`, { status: 'cancelled' })
  const orderEvents = await readChanges(database, order.id)
  t.equal(countTypes(orderEvents), 'orders.created, orders.updated')
  t.match(orderEvents, [{ owner_id: adminId, previous: null }, { previous: { status: 'pending' } }])
  t.match((await readChanges(database, second.id)).slice(1), [
    { type: 'products.updated', revision: 2, previous: { stock: 10 }, columns: { stock: 7 }, owner_id: null },
    { type: 'products.updated', revision: 3, previous: { stock: 7 }, columns: { stock: 10 } },
  ])
  t.strictSame(
    (await readChanges(database, first.id)).map(({ previous }) => previous),
    [null, { stock: 10 }, { stock: 8 }],
  )
})

t.test(
  'sign-in and sign-out are events of sessions, and so are those that a new password ends',
  async (t) => {
    const { admin, anybody, database } = await testApp(t)
    const password = 'correct horse battery'
    const account = { name: 'Ada', email: 'ada@example.com', password }
    const { data: ada } = (await admin.post('/users', account)).body
    const signIn = async () =>
      (await anybody.post('/tokens', { grant_type: 'password', email: account.email, password })).body.data
    const [first, second, third] = [await signIn(), await signIn(), await signIn()]
    const bearer = { authorization: `Bearer ${first.access_token}` }
    await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: second.refresh_token })
    await anybody.delete(`/sessions/${third.session_id}`, bearer)
    await anybody.post('/api-keys', { name: 'Export', scopes: ['*'] }, bearer)
    t.match(
      await readChanges(database, second.session_id),
      [
        {
          type: 'sessions.created',
          actor_id: ada.id,
          owner_id: ada.id,
          credential: 'none',
          credential_id: null,
        },
      ],
      'a refresh is none',
    )
    t.match(await readChanges(database, third.session_id), [
      { type: 'sessions.created' },
      { type: 'sessions.deleted', actor_id: ada.id, credential: 'token', credential_id: first.session_id },
    ])

    const count = (await readChanges(database)).length
    const changed = { password: 'another horse battery', current_password: password, revoke_api_keys: true }
    t.equal((await anybody.patch(`/users/${ada.id}`, changed, bearer)).status, 200)
    const events = (await readChanges(database)).slice(count)
    t.equal(countTypes(events), 'api-keys.deleted, sessions.deleted, users.updated')
    t.strictSame(events.find(({ type }) => type === 'users.updated')?.previous, {}, 'no password')
    const text = JSON.stringify(await readChanges(database))
    for (const secret of ['password_hash', 'key_hash', 'refresh_hash', 'argon2'])
      t.notOk(text.includes(secret), secret)
  },
)

t.test('what is deleted with a user has events of its own', async (t) => {
  const { admin, database, person } = await testApp(
    t,
    {},
    {
      database: await testDatabase(t).then(async (database) => {
        await createNotesTable(database)
        return database
      }),
      resources: resourcesWithNotes,
    },
  )
  const ada = await person('member')
  await ada.client.post('/user-profiles', { display_name: 'Ada' })
  for (const title of ['One', 'Two']) await ada.client.post('/users/me/notes', { title, body: 'Text' })
  const count = (await readChanges(database)).length
  t.equal((await admin.delete(`/users/${ada.id}`)).status, 204)
  const events = (await readChanges(database)).slice(count)
  t.equal(
    countTypes(events),
    'api-keys.deleted, notes.deleted x2, sessions.deleted, user-profiles.deleted, users.deleted',
  )
  t.ok(events.every(({ owner_id }) => owner_id === ada.id))
  t.equal(events.at(-1)?.type, 'users.deleted')
})

t.test('a sign-up has no actor, and the first admin is created by the system', async (t) => {
  const { anybody, adminId, database } = await testApp(t, { ALLOW_SIGNUP: 'true' })
  const { data } = (await anybody.post('/users', { name: 'Ada', email: 'ada@example.com' })).body
  t.match(await readChanges(database, data.id), [{ actor_id: null, credential: 'none', owner_id: data.id }])
  t.match(await readChanges(database, adminId), [
    { type: 'users.created', actor_id: null, credential: 'system' },
  ])
})

t.test('with EVENTS=false no event is written', async (t) => {
  const { admin, database } = await testApp(t, { EVENTS: 'false' })
  const { data } = (await admin.post('/products', makeProduct())).body
  await admin.patch(`/products/${data.id}`, { stock: 4 })
  await admin.patch(`/products/${data.id}`, { name: 'Green tea' })
  await admin.delete(`/products/${data.id}`)
  t.strictSame(await readChanges(database), [])
})

t.test('concurrent changes of one row have events in the order of its revisions', async (t) => {
  const { admin, database } = await testApp(t)
  const { data } = (await admin.post('/products', makeProduct())).body
  const change = (i: number) =>
    i % 3 === 0
      ? admin.patch(`/products/${data.id}`, { name: `Tea ${i}` })
      : i % 3 === 1
        ? admin.patch(`/products/${data.id}`, { stock: i })
        : admin.patch(`/products/${data.id}`, { price_amount: i, stock: i })
  await Promise.all(Array.from({ length: 60 }, (_, i) => change(i)))
  const events = await readChanges(database, data.id)
  t.strictSame(
    events.map(({ revision }) => revision),
    events.map((_, i) => i + 1),
  )
  for (const [i, event] of events.entries()) {
    const before = events[i - 1]
    if (!before) continue
    const expected = Object.fromEntries(
      Object.entries(before.columns).filter(
        ([name, value]) => name !== 'updated_at' && value !== event.columns[name],
      ),
    )
    t.strictSame(event.previous, expected, `revision ${event.revision}`)
  }
})
