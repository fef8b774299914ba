/** A POST or PATCH with an Idempotency-Key is executed once, and repeated requests get the stored reply. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { ADMIN_KEY, type Client, type Json, type Reply, testApp } from '../helpers/app.ts'
import { definitions, getTable } from '../helpers/definitions.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../helpers/idempotency.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { createOwnedRows } from '../helpers/owned-rows.ts'
import { sendRaw } from '../helpers/raw-requests.ts'
import { createSharedDatabase } from '../helpers/shared-database.ts'

const database = await createSharedDatabase(t)
const { port, admin, adminId, anybody, person } = await testApp(
  t,
  {},
  { database, resources: resourcesWithNotes },
)
await createNotesTable(database)
const boss = await person('admin')
const { listOf, make, creation, change } = createOwnedRows(database)

/** Those whose rows can be created and changed. */
const COLLECTIONS = definitions
  .filter(({ verbs }) => verbs === undefined || (verbs.includes('create') && verbs.includes('update')))
  .map(({ name }) => name)
const product = (sku: string = uuid()) => ({ sku, name: 'Tea', price_amount: 1 })

const count = async (table: string) =>
  Number((await database.run(`select count(*) as count from ${table}`))[0]?.count)
const stockOf = async (id: string) =>
  Number((await database.run('select stock from products where id = $1', [id]))[0]?.stock)

/** Asserts that a reply repeats the stored one. */
const repeats = (t: Test, again: Reply, first: Reply, message = 'repeats the stored reply') =>
  t.same(pickReplayedParts(again), pickReplayedParts(first), message)

/** Returns the text of a new key, or the secret of a new endpoint. */
const secretIn = ({ body: { data } }: Reply): unknown => {
  const fields = data.attributes ?? data
  return fields.key ?? fields.secret
}

for (const version of [1, 2]) {
  const base = `/api/v${version}`

  for (const collection of COLLECTIONS) {
    const title = `v${version}: a repeated`
    t.test(`${title} POST ${collection} is executed once and gets the same reply`, async (t) => {
      const list = base + (await listOf(collection, boss.id))
      const table = getTable(collection)
      const body = await creation(collection, boss.id)
      const before = await count(table)
      const header = createKeyHeader()
      const first = await boss.bearer.post(list, body, header)
      t.equal(first.status, 201, first.text)
      t.equal(first.headers.get('idempotency-replayed'), null)
      const again = await boss.bearer.post(list, body, header)
      t.ok(isReplayed(again))
      t.equal(again.headers.get('cache-control'), 'no-store')
      t.equal(again.headers.get('api-version'), String(version))
      t.equal(again.headers.get('content-type'), first.headers.get('content-type'))
      const secret = secretIn(first)
      // The replay is built without the secret, at another time.
      const comparable = (reply: Reply) => {
        const { text, ...rest } = pickReplayedParts(reply)
        const bare = text.replace(JSON.stringify(secret), 'null').replace(/"timestamp":"[^"]*"/, '')
        return { ...rest, text: secret ? bare : text }
      }
      t.same(comparable(again), comparable(first))
      t.equal(secretIn(again) ?? null, null, 'a secret is returned once')
      t.equal(await count(table), before + 1)
    })

    t.test(`${title} PATCH ${collection} is executed once and gets the same reply`, async (t) => {
      const id = await make(collection, boss.id)
      const one = `${base}${await listOf(collection, boss.id)}/${id}`
      const header = createKeyHeader()
      const body = change(collection)
      const first = await boss.bearer.patch(one, body, header)
      t.equal(first.status, 200, first.text)
      t.notOk(isReplayed(first))
      const other = await boss.bearer.patch(one, change(collection))
      t.equal(other.status, 200)
      const again = await boss.bearer.patch(one, body, header)
      repeats(t, again, first, 'whatever has become of the row since')
      t.ok(isReplayed(again))
      const now = await boss.bearer.get(one)
      t.equal(
        now.headers.get('etag')?.slice(0, 2),
        other.headers.get('etag')?.slice(0, 2),
        'nothing was written',
      )
    })
  }
}

t.test('a repeated order or change of items takes stock once', async (t) => {
  const product_id = await make('products', adminId, { stock: 1000 })
  const body = { items: [{ product_id, quantity: 3 }] }
  const header = createKeyHeader()
  const first = await admin.post('/orders', body, header)
  t.equal(first.status, 201)
  t.equal(await stockOf(product_id), 997)
  for (let i = 0; i < 3; i++) repeats(t, await admin.post('/orders', body, header), first)
  t.equal(await stockOf(product_id), 997)
  const path = `/orders/${first.body.data.id}`
  const more = { items: [{ product_id, quantity: 10 }] }
  for (let i = 0; i < 3; i++) t.equal((await admin.patch(path, more, header)).status, 200)
  t.equal(await stockOf(product_id), 990)
  for (let i = 0; i < 3; i++) {
    t.equal((await admin.patch(path, { status: 'cancelled' }, { 'idempotency-key': 'cancel' })).status, 200)
  }
  t.equal(await stockOf(product_id), 1000, 'and gives it back once')
})

t.test('a repeated POST gets the stored reply after its row was changed or deleted', async (t) => {
  const header = createKeyHeader()
  const body = product()
  const first = await admin.post('/products', body, header)
  const path = `/products/${first.body.data.id}`
  await admin.patch(path, { name: 'Another' })
  repeats(t, await admin.post('/products', body, header), first)
  t.equal((await admin.delete(path)).status, 204)
  repeats(t, await admin.post('/products', body, header), first)
  t.equal((await admin.get(path)).status, 404)
})

t.test('a repeated PATCH of a deleted row is a 404, of a forbidden row a 403', async (t) => {
  const header = createKeyHeader()
  const id = await make('products', adminId, { stock: 1000 })
  t.equal((await admin.patch(`/products/${id}`, { name: 'A' }, header)).status, 200)
  await admin.delete(`/products/${id}`)
  t.equal((await admin.patch(`/products/${id}`, { name: 'A' }, header)).status, 404)

  const member = await person('member')
  const order = await make('orders', member.id)
  t.equal((await member.client.patch(`/orders/${order}`, { note: 'A' }, header)).status, 200)
  await database.run('update orders set user_id = $1 where id = $2', [adminId, order])
  t.equal((await member.client.patch(`/orders/${order}`, { note: 'A' }, header)).status, 403)
  t.equal((await member.client.patch(`/orders/${order}`, { note: 'B' }, header)).status, 403)
})

t.test('a stored reply is returned although the state of the row now forbids the change', async (t) => {
  const member = await person('member')
  const order = `/orders/${await make('orders', member.id)}`
  const header = createKeyHeader()
  const first = await member.client.patch(order, { note: 'Ring twice' }, header)
  t.equal(first.status, 200)
  t.equal((await admin.patch(order, { status: 'paid' })).status, 200)
  t.equal((await member.client.patch(order, { note: 'Ring once' })).status, 403)
  repeats(t, await member.client.patch(order, { note: 'Ring twice' }, header), first)
})

t.test('a PATCH without effect is stored', async (t) => {
  const id = await make('products', adminId, { stock: 1000 })
  const header = createKeyHeader()
  const body = { stock: 1000 }
  const first = await admin.patch(`/products/${id}`, body, header)
  await admin.patch(`/products/${id}`, { stock: 5 })
  repeats(t, await admin.patch(`/products/${id}`, body, header), first)
  t.equal(await stockOf(id), 5)
})

t.test('another body with the same key is rejected with 422 and writes nothing', async (t) => {
  const header = createKeyHeader()
  const body = product()
  const first = await admin.post('/products', body, header)
  const before = await count('products')
  for (const other of [
    { ...body, stock: 1 },
    { ...body, name: 'tea' },
    { ...body, description: null },
  ]) {
    const reply = await admin.post('/products', other, header)
    t.equal(reply.status, 422)
    t.equal(reply.body.error.code, 'IDEMPOTENCY_KEY_REUSED')
  }
  t.equal(await count('products'), before)
  repeats(t, await admin.post('/products', body, header), first, 'the first one stands')
})

t.test('bodies are compared as JSON, regardless of field order and escaping', async (t) => {
  const header = createKeyHeader()
  const first = await admin.post('/products', '{"sku": "ORDER-1", "name": "Té", "price_amount": 100}', header)
  t.equal(first.status, 201)
  for (const same of [
    '{"price_amount":100,"name":"Té","sku":"ORDER-1"}',
    '{"price_amount":1e2,"name":"T\\u00e9","sku":"ORDER-1"}\n',
    '{"price_amount":100.0,"sku":"ORDER-1","name":"Té"}',
  ]) {
    repeats(t, await admin.post('/products', same, header), first, same)
  }
  const nested = { items: [{ product_id: await make('products', adminId, { stock: 1000 }), quantity: 1 }] }
  const address = { name: 'A', line1: 'B', city: 'C', postal_code: 'D', country: 'SE' }
  const order = await admin.post('/orders', { ...nested, shipping_address: address }, header)
  const reversed = Object.fromEntries(Object.entries(address).reverse())
  const again = await admin.post('/orders', { shipping_address: reversed, ...nested }, header)
  repeats(t, again, order)
  const vendor = { ...header, 'content-type': 'application/vnd.api+json' }
  repeats(t, await admin.post('/orders', { ...nested, shipping_address: address }, vendor), order)
})

t.test('in v2 a flat body and a typed body are different', async (t) => {
  const header = createKeyHeader()
  const attributes = product()
  t.equal((await admin.post('/v2/products', attributes, header)).status, 201)
  const typed = { data: { type: 'products', attributes } }
  t.equal((await admin.post('/v2/products', typed, header)).body.error.code, 'IDEMPOTENCY_KEY_REUSED')
})

t.test('a key is separate for each user, method, path and version', async (t) => {
  const header = createKeyHeader()
  const [one, two] = [await person('manager'), await person('manager')]
  const names = async (client: Client, path: string, body: Json) => {
    const reply = await client.post(path, body, header)
    t.equal(reply.status, 201, reply.text)
    t.notOk(isReplayed(reply), path)
    return reply.body.data.id
  }
  const note = { title: 'a', body: 'b' }
  const ids = [
    await names(one.client, `/users/${one.id}/notes`, note),
    await names(two.client, `/users/${one.id}/notes`, note),
    await names(one.client, `/users/${two.id}/notes`, note),
    await names(one.client, `/v2/users/${one.id}/notes`, note),
  ]
  t.equal(new Set(ids).size, 4)
  const [first] = ids
  t.notOk(isReplayed(await one.client.patch(`/users/${one.id}/notes/${first}`, { title: 'a' }, header)))
  const again = await one.bearer.post(`/users/${one.id}/notes`, note, header)
  t.ok(isReplayed(again), 'but another credential of the same user is the same')
})

t.test('path form, letter case of ids and me do not matter', async (t) => {
  const header = createKeyHeader()
  const body = { title: 'a', body: 'b' }
  const first = await admin.post('/users/me/notes', body, header)
  t.equal(first.status, 201)
  const typed = { accept: 'application/vnd.api+json;version=1' }
  for (const [path, more] of [
    ['/api/v1/users/me/notes', {}],
    ['/v1/users/me/notes/', {}],
    ['/api/users/me/notes', {}],
    [`/api/v1/users/${adminId}/notes`, {}],
    [`/users/${adminId.toUpperCase()}/notes`, {}],
    ['/users/me/%6eotes', {}],
    ['/users/me/notes', typed],
  ] as const) {
    const again = await admin.post(path, body, { ...header, ...more })
    t.ok(isReplayed(again), path)
    repeats(t, again, first, path)
  }
  const vendor = await admin.post('/users/me/notes', body, { ...header, ...typed })
  t.equal(vendor.headers.get('content-type'), 'application/vnd.api+json;version=1')
})

t.test('a key is 1-255 visible ASCII characters, quoted or not', async (t) => {
  const id = await make('products', adminId, { stock: 1000 })
  const ask = (key: string) => admin.patch(`/products/${id}`, { stock: 7 }, { 'idempotency-key': key })
  const visible = Array.from({ length: 94 }, (_, i) => String.fromCharCode(0x21 + i)).join('')
  const bare = visible.replace('"', '')
  const sound = ['x', 'x'.repeat(255), bare, `${bare}"`, '\\', '"q"', `"${'y'.repeat(255)}"`, '"\\"\\\\"']
  for (const key of sound) {
    t.notOk(isReplayed(await ask(key)), `${key} is new`)
    t.ok(isReplayed(await ask(key)), `${key} is known`)
  }
  for (const [one, other] of [
    ['bare', '"bare"'],
    ['"quoted"', 'quoted'],
    ['a"b\\c', '"a\\"b\\\\c"'],
  ] as const) {
    t.equal((await ask(one)).status, 200)
    t.ok(isReplayed(await ask(other)), `${other} is ${one}`)
  }
  const wrong = [
    '',
    '""',
    '"',
    '"x',
    '"x"y"',
    '"x\\y"',
    '"x\\"',
    'x y',
    '"x y"',
    'x\ty',
    'é',
    '\u00a0',
    '"x";a=1',
  ]
  for (const key of [...wrong, 'x'.repeat(256), `"${'x'.repeat(256)}"`]) {
    const reply = await ask(key)
    t.equal(reply.status, 400, key)
    t.equal(reply.body.error.code, 'INVALID_REQUEST')
    t.match(reply.body.error.message, /Idempotency-Key/)
  }
})

t.test('UTF-8, control characters and a second header are rejected with 400', async (t) => {
  const id = await make('products', adminId, { stock: 1000 })
  const body = '{"stock":8}'
  const send = async (...fields: string[]) => {
    const head = [
      `PATCH /products/${id} HTTP/1.1`,
      'Host: localhost',
      `X-API-Key: ${ADMIN_KEY}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      'Connection: close',
      ...fields,
    ]
    const { replies } = await sendRaw(port, `${head.join('\r\n')}\r\n\r\n${body}`)
    return replies[0]?.status
  }
  t.equal(await send('Idempotency-Key: sound'), 200)
  t.equal(await send('Idempotency-Key: schlüssel'), 400)
  t.equal(await send('Idempotency-Key: 键'), 400)
  t.equal(await send('Idempotency-Key: a\x01b'), 400)
  t.equal(await send('Idempotency-Key: a\x7fb'), 400)
  t.equal(await send('Idempotency-Key: a', 'idempotency-key: a'), 400)
})

t.test('GET, PUT and DELETE ignore the header, valid or not', async (t) => {
  const id = await make('products', adminId, { stock: 1000 })
  const path = `/products/${id}`
  for (const key of ['same', 'not sound']) {
    const header = { 'idempotency-key': key }
    for (let i = 0; i < 2; i++) {
      const put = await admin.put(path, product(), header)
      t.equal(put.status, 200)
      t.notOk(isReplayed(put))
      t.equal((await admin.get(path, header)).status, 200)
      t.equal((await admin.get('/products', header)).status, 200)
    }
  }
  const header = { 'idempotency-key': 'same' }
  t.equal((await admin.delete(path, header)).status, 204)
  t.equal((await admin.delete(path, header)).status, 404)
})

t.test('signing in and signing up ignore the header', async (t) => {
  const { anybody } = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database })
  const before = await count('idempotency_keys')
  for (const key of ['same', 'not sound']) {
    const header = { 'idempotency-key': key }
    const body = { name: 'N', email: `${uuid()}@example.com`, password: 'long enough for it' }
    t.equal((await anybody.post('/users', body, header)).status, 201)
    t.equal((await anybody.post('/users', body, header)).status, 409, 'the address is taken')
    const grant = { grant_type: 'password', email: body.email, password: body.password }
    const tokens = [
      await anybody.post('/tokens', grant, header),
      await anybody.post('/tokens', grant, header),
    ]
    t.same(
      tokens.map(({ status }) => status),
      [201, 201],
    )
    t.not(tokens[0]?.body.data.access_token, tokens[1]?.body.data.access_token)
    t.notOk(tokens.some(isReplayed))
  }
  t.equal(await count('idempotency_keys'), before)
})

t.test(
  'only successful writes are stored, and a rejected one can be repeated with the same key',
  async (t) => {
    const header = createKeyHeader()
    const sku = uuid()
    const { id } = (await admin.post('/products', product(sku))).body.data
    t.equal((await admin.post('/products', product(sku), header)).status, 409)
    t.equal((await admin.post('/products', { ...product(sku), stock: -1 }, header)).status, 422)
    await admin.delete(`/products/${id}`)
    const made = await admin.post('/products', product(sku), header)
    t.equal(made.status, 201, 'another body too, since none was kept')
    t.notOk(isReplayed(made))
    const path = `/products/${made.body.data.id}`
    const stale = { ...header, 'if-match': '"9-abcdefghijkl"' }
    t.equal((await admin.patch(path, { stock: 1 }, stale)).status, 412)
    t.equal((await admin.patch(path, { stock: 2 }, header)).status, 200)

    const product_id = await make('products', adminId, { stock: 1000 })
    const order = { items: [{ product_id, quantity: 1_000 }] }
    await admin.patch(`/products/${product_id}`, { stock: 999 })
    t.equal((await admin.post('/orders', order, header)).status, 409)
    await admin.patch(`/products/${product_id}`, { stock: 1_000 })
    t.equal((await admin.post('/orders', order, header)).status, 201)
    t.ok(isReplayed(await admin.post('/orders', order, header)))
  },
)

t.test(
  'the header is checked after the body is parsed, before the query and the preconditions',
  async (t) => {
    const { admin } = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database })
    const bad = { 'idempotency-key': 'not sound' }
    const id = await make('products', adminId, { stock: 1000 })
    const path = `/products/${id}`
    const text = { ...bad, 'content-type': 'text/plain' }
    t.equal((await admin.call('PATCH', path, { headers: text, body: 'x' })).status, 415)
    t.match((await admin.patch(path, '{"broken', bad)).body.error.message, /JSON/)
    t.match((await admin.patch(`${path}?x=1`, { stock: -1 }, bad)).body.error.message, /Idempotency-Key/)
    t.equal((await anybody.patch(path, {}, bad)).status, 401)

    const header = createKeyHeader()
    t.equal((await admin.patch(path, { stock: 1 }, header)).status, 428)
    const first = await admin.patch(path, { stock: 1 }, { ...header, 'if-match': '*' })
    t.equal(first.status, 200)
    repeats(t, await admin.patch(path, { stock: 1 }, header), first, 'before 428')
    const stale = { ...header, 'if-match': '"9-abcdefghijkl"' }
    repeats(t, await admin.patch(path, { stock: 1 }, stale), first, 'before 412')
    t.equal((await admin.patch(path, { stock: 2 }, stale)).body.error.code, 'IDEMPOTENCY_KEY_REUSED')
    t.equal((await admin.patch(path, { stock: -1 }, stale)).body.error.code, 'VALIDATION_ERROR')
    const next = { 'if-match': first.headers.get('etag') ?? '' }
    t.equal(
      (await admin.patch(path, { stock: 3 }, next)).status,
      200,
      'the ETag of a replayed reply is valid',
    )
  },
)

t.test('with HIDE_FORBIDDEN a forbidden row is a 404 on a repeated PATCH', async (t) => {
  const { person } = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database })
  const { client, id } = await person('member')
  const order = await make('orders', id)
  const header = createKeyHeader()
  t.equal((await client.patch(`/orders/${order}`, { note: 'A' }, header)).status, 200)
  await database.run('update orders set user_id = $1 where id = $2', [adminId, order])
  t.equal((await client.patch(`/orders/${order}`, { note: 'A' }, header)).status, 404)
})

t.test('a user whose role may no longer write gets no stored reply', async (t) => {
  const manager = await person('manager')
  const header = createKeyHeader()
  const body = product()
  t.equal((await manager.client.post('/products', body, header)).status, 201)
  await admin.patch(`/users/${manager.id}`, { role: 'member' })
  t.equal((await manager.client.post('/products', body, header)).status, 403)
})

t.test('deleting a user deletes the records', async (t) => {
  const other = await person('manager')
  t.equal((await other.client.post('/products', product(), createKeyHeader())).status, 201)
  const records = () => database.run('select 1 from idempotency_keys where user_id = $1', [other.id])
  t.equal((await records()).length, 1)
  t.equal((await admin.delete(`/users/${other.id}`)).status, 204)
  t.equal((await records()).length, 0)
})
