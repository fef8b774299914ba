/** A POST or PATCH with an Idempotency-Key is executed once, and repeated requests get the stored reply. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { ADMIN_KEY, type Client, type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { definitions, getTable } from '../../../testing/helpers/definitions.ts'
import { createOwnedRows } from '../../../testing/helpers/example-rows.ts'
import { sendRaw } from '../../../testing/helpers/network.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../../../testing/helpers/replies.ts'
import { newProduct } from '../../../testing/helpers/versioned-client.ts'

const database = await createSharedDatabase(t)
const overrides = { database, resources: resourcesWithNotes }
const { port, admin, adminId, anybody, person } = await testApp(t, {}, overrides)
await createNotesTable(database)
const boss = await person('admin')
const { getListPath, make, creation, change } = createOwnedRows(database)

const makeProduct = () => make('products', adminId, { stock: 1000 })
const count = async (table: string) =>
  Number((await database.run(`select count(*) as count from ${table}`))[0]?.count)
const codeOf = async (reply: Promise<Reply>) => (await reply).body.error?.code
const statusOf = async (reply: Promise<Reply>) => (await reply).status

/** Asserts that a reply repeats the stored one. */
async function repeats(t: Test, again: Promise<Reply>, first: Reply, message = 'repeats the stored reply') {
  t.ok(isReplayed(await again), message)
  t.same(pickReplayedParts(await again), pickReplayedParts(first), message)
}

const writable = definitions.filter(
  ({ verbs }) => !verbs || (verbs.includes('create') && verbs.includes('update')),
)
for (const [i, { name: collection }] of writable.entries()) {
  const version = (i % 2) + 1
  t.test(`v${version}: a repeated POST or PATCH of ${collection} is executed once`, async (t) => {
    const list = `/api/v${version}${await getListPath(collection, boss.id)}`
    const body = await creation(collection, boss.id)
    const before = await count(getTable(collection))
    const header = createKeyHeader()
    const first = await boss.bearer.post(list, body, header)
    t.same([first.status, isReplayed(first)], [201, false], first.text)
    const again = await boss.bearer.post(list, body, header)
    t.match(Object.fromEntries(again.headers), {
      'idempotency-replayed': 'true',
      'cache-control': 'no-store',
      'api-version': String(version),
      'content-type': first.headers.get('content-type'),
    })
    const fields = first.body.data.attributes ?? first.body.data
    const secret = JSON.stringify(fields.key ?? fields.secret ?? 'no secret')
    // The replay is built without the secret, at another time.
    const withoutTime = ({ text }: Reply) => text.replace(secret, 'null').replace(/"timestamp":"[^"]*"/, '')
    t.equal(withoutTime(again), withoutTime(first))
    t.notMatch(again.text, secret, 'a secret is returned once')
    t.equal(again.headers.get('location'), first.headers.get('location'))
    t.equal(await count(getTable(collection)), before + 1)

    const path = `${list}/${await make(collection, boss.id)}`
    const changed = await change(collection, boss.id)
    const patched = await boss.bearer.patch(path, changed, header)
    t.same([patched.status, isReplayed(patched)], [200, false], patched.text)
    const { headers } = await boss.bearer.patch(path, await change(collection, boss.id))
    await repeats(t, boss.bearer.patch(path, changed, header), patched)
    const now = await boss.bearer.get(path)
    t.equal(now.headers.get('etag')?.slice(0, 2), headers.get('etag')?.slice(0, 2), 'nothing was written')
  })
}

t.test('a stored reply outlives its row, but is not returned without access', async (t) => {
  const header = createKeyHeader()
  const body = newProduct()
  const first = await admin.post('/products', body, header)
  const path = `/products/${first.body.data.id}`
  const patched = await admin.patch(path, { stock: 0 }, header)
  await admin.patch(path, { name: 'Another', stock: 5 })
  await repeats(t, admin.post('/products', body, header), first)
  await repeats(t, admin.patch(path, { stock: 0 }, header), patched, 'also of a change without an effect')
  t.equal((await admin.get(path)).body.data.stock, 5)
  t.equal(await statusOf(admin.delete(path)), 204)
  await repeats(t, admin.post('/products', body, header), first)
  t.equal(await statusOf(admin.patch(path, { stock: 0 }, header)), 404)

  const member = await person('member')
  const id = await make('orders', member.id)
  const order = `/orders/${id}`
  const note = await member.client.patch(order, { note: 'A' }, header)
  t.equal(await statusOf(admin.patch(order, { status: 'paid' })), 200)
  t.equal(await statusOf(member.client.patch(order, { note: 'B' })), 403, 'the state forbids other changes')
  await repeats(t, member.client.patch(order, { note: 'A' }, header), note)
  await database.run('update orders set user_id = $1 where id = $2', [adminId, id])
  t.equal(await statusOf(member.client.patch(order, { note: 'A' }, header)), 403)
  t.equal(await statusOf(member.client.patch(order, { note: 'B' }, header)), 403, 'before 422')
  const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database })
  const headers = { ...header, 'x-api-key': member.key }
  t.equal(await statusOf(hiding.anybody.patch(order, { note: 'A' }, headers)), 404)

  const manager = await person('manager')
  t.equal(await statusOf(manager.client.post('/products', body, header)), 201)
  await admin.patch(`/users/${manager.id}`, { role: 'member' })
  t.equal(await statusOf(manager.client.post('/products', body, header)), 403)
})

t.test('another body with the same key is rejected with 422 and writes nothing', async (t) => {
  const header = createKeyHeader()
  const body = newProduct()
  const first = await admin.post('/products', body, header)
  const before = await count('products')
  for (const other of [{ stock: 1 }, { name: 'tea' }, { description: null }]) {
    const reply = await admin.post('/products', { ...body, ...other }, header)
    t.match(reply, { status: 422, body: { error: { code: 'IDEMPOTENCY_KEY_REUSED' } } })
  }
  t.equal(await count('products'), before)
  await repeats(t, admin.post('/products', body, header), first)
  t.equal(await statusOf(admin.post('/v2/products', newProduct(), header)), 201)
  const typed = { data: { type: 'products', attributes: body } }
  t.equal(
    await codeOf(admin.post('/v2/products', typed, header)),
    'IDEMPOTENCY_KEY_REUSED',
    'the form counts',
  )
})

t.test('bodies are compared as JSON, regardless of field order, escaping and media type', async (t) => {
  const header = createKeyHeader()
  const first = await admin.post('/products', '{"sku": "ORDER-1", "name": "Té", "price_amount": 100}', header)
  t.equal(first.status, 201)
  for (const same of [
    '{"price_amount":100,"name":"Té","sku":"ORDER-1"}',
    '{"price_amount":1e2,"name":"T\\u00e9","sku":"ORDER-1"}\n',
    '{"price_amount":100.0,"sku":"ORDER-1","name":"Té"}',
  ]) {
    await repeats(t, admin.post('/products', same, header), first, same)
  }
  const items = [{ product_id: await makeProduct(), quantity: 1 }]
  const address = { name: 'A', line1: 'B', city: 'C', postal_code: 'D', country: 'SE' }
  const order = await admin.post('/orders', { items, shipping_address: address }, header)
  const reversed = Object.fromEntries(Object.entries(address).reverse())
  const vendor = { ...header, 'content-type': 'application/vnd.api+json' }
  await repeats(t, admin.post('/orders', { shipping_address: reversed, items }, vendor), order)
})

t.test('a key is separate for each user, method, path and version', async (t) => {
  const header = createKeyHeader()
  const [one, two] = [await person('manager'), await person('manager')]
  const note = { title: 'a', body: 'b' }
  const path = `/users/${one.id}/notes`
  const create = async (client: Client, list: string) => {
    const reply = await client.post(list, note, header)
    t.equal(reply.status, 201, reply.text)
    t.notOk(isReplayed(reply), list)
    return reply.body.data.id
  }
  const first = await create(one.client, path)
  const others = [
    await create(two.client, path),
    await create(one.client, `/users/${two.id}/notes`),
    await create(one.client, `/v2${path}`),
  ]
  t.equal(new Set([first, ...others]).size, 4)
  t.notOk(isReplayed(await one.client.patch(`${path}/${first}`, { title: 'a' }, header)))
  t.ok(isReplayed(await one.bearer.post(path, note, header)), 'any credential of the user')
})

t.test('path form, letter case of ids and me do not matter', async (t) => {
  const header = createKeyHeader()
  const note = { title: 'a', body: 'b' }
  const first = await admin.post('/users/me/notes', note, header)
  t.equal(first.status, 201)
  for (const path of [
    '/api/v1/users/me/notes',
    '/v1/users/me/notes/',
    '/api/users/me/notes',
    `/api/v1/users/${adminId}/notes`,
    `/users/${adminId.toUpperCase()}/notes`,
    '/users/me/%6eotes',
  ]) {
    await repeats(t, admin.post(path, note, header), first, path)
  }
  const accept = 'application/vnd.api+json;version=1'
  const vendor = admin.post('/users/me/notes', note, { ...header, accept })
  await repeats(t, vendor, first)
  t.equal((await vendor).headers.get('content-type'), accept)
})

t.test('a key is 1-255 visible ASCII characters, quoted or not', async (t) => {
  const path = `/products/${await makeProduct()}`
  const ask = (key: string) => admin.patch(path, { stock: 7 }, { 'idempotency-key': key })
  const visible = Array.from({ length: 94 }, (_, i) => String.fromCharCode(0x21 + i)).join('')
  const bare = visible.replace('"', '')
  for (const key of [
    'x',
    'x'.repeat(255),
    bare,
    `${bare}"`,
    '\\',
    '"q"',
    `"${'y'.repeat(255)}"`,
    '"\\"\\\\"',
  ]) {
    t.notOk(isReplayed(await ask(key)), `${key} is new`)
    t.ok(isReplayed(await ask(key)), `${key} is known`)
  }
  for (const [one, other] of [
    ['bare', '"bare"'],
    ['"quoted"', 'quoted'],
    ['a"b\\c', '"a\\"b\\\\c"'],
  ] as const) {
    t.equal(await statusOf(ask(one)), 200)
    t.ok(isReplayed(await ask(other)), `${other} is ${one}`)
  }
  const malformed = ['', '""', '"', '"x', '"x"y"', '"x\\y"', '"x\\"', 'x y', '"x y"', 'x\ty', '"x";a=1']
  for (const key of [...malformed, 'é', '\u00a0', 'x'.repeat(256), `"${'x'.repeat(256)}"`]) {
    const error = { code: 'INVALID_REQUEST', message: /Idempotency-Key/ }
    t.match(await ask(key), { status: 400, body: { error } }, key)
  }

  const send = async (...fields: string[]) => {
    const head = [
      ...[`PATCH ${path} HTTP/1.1`, 'Host: localhost', `X-API-Key: ${ADMIN_KEY}`, 'Connection: close'],
      ...['Content-Type: application/json', 'Content-Length: 11', ...fields],
    ]
    const { replies } = await sendRaw(port, `${head.join('\r\n')}\r\n\r\n{"stock":8}`)
    return replies[0]?.status
  }
  t.equal(await send('Idempotency-Key: sound'), 200)
  for (const key of ['schlüssel', '键', 'a\x01b', 'a\x7fb'])
    t.equal(await send(`Idempotency-Key: ${key}`), 400)
  t.equal(await send('Idempotency-Key: a', 'idempotency-key: a'), 400, 'two header fields')
})

t.test('GET, PUT, DELETE, signing in and signing up ignore the header, valid or not', async (t) => {
  const before = await count('idempotency_keys')
  const signup = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database })
  for (const key of ['same', 'not sound']) {
    const header = { 'idempotency-key': key }
    const path = `/products/${await makeProduct()}`
    const user = { name: 'N', email: `${uuid()}@example.com`, password: 'long enough for it' }
    const grant = { grant_type: 'password', email: user.email, password: user.password }
    const requests: [expected: number[], send: () => Promise<Reply>][] = [
      [[200, 200], () => admin.put(path, newProduct(), header)],
      [[200, 200], () => admin.get(path, header)],
      [[200, 200], () => admin.get('/products', header)],
      [[204, 404], () => admin.delete(path, header)],
      // The second does not say that there is an account.
      [[201, 201], () => signup.anybody.post('/users', user, header)],
      [[201, 201], () => signup.anybody.post('/tokens', grant, header)],
    ]
    for (const [expected, send] of requests) {
      const replies = [await send(), await send()]
      t.same([...replies.map(({ status }) => status), replies.some(isReplayed)], [...expected, false])
    }
  }
  t.equal(await count('idempotency_keys'), before)
})

t.test('only successful writes are stored; a rejected one can be repeated with its key', async (t) => {
  const header = createKeyHeader()
  const body = newProduct()
  const { id } = (await admin.post('/products', body)).body.data
  t.equal(await statusOf(admin.post('/products', body, header)), 409)
  t.equal(await statusOf(admin.post('/products', { ...body, stock: -1 }, header)), 422)
  await admin.delete(`/products/${id}`)
  const made = await admin.post('/products', body, header)
  t.equal(made.status, 201)
  t.notOk(isReplayed(made))
  const path = `/products/${made.body.data.id}`
  const stale = { ...header, 'if-match': '"9-abcdefghijkl"' }
  t.equal(await statusOf(admin.patch(path, { stock: 1 }, stale)), 412)
  t.equal(await statusOf(admin.patch(path, { stock: 2 }, header)), 200)

  const product_id = await makeProduct()
  const order = { items: [{ product_id, quantity: 1_000 }] }
  await admin.patch(`/products/${product_id}`, { stock: 999 })
  t.equal(await statusOf(admin.post('/orders', order, header)), 409)
  await admin.patch(`/products/${product_id}`, { stock: 1_000 })
  t.equal(await statusOf(admin.post('/orders', order, header)), 201)
  t.ok(isReplayed(await admin.post('/orders', order, header)))
})

t.test('the header is checked after the body is parsed, before the query and the rest', async (t) => {
  const { admin } = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database })
  const bad = { 'idempotency-key': 'not sound' }
  const path = `/products/${await makeProduct()}`
  const patch = (body: Json, headers: Record<string, string>) => admin.patch(path, body, headers)
  const text = { headers: { ...bad, 'content-type': 'text/plain' }, body: 'x' }
  t.equal(await statusOf(admin.call('PATCH', path, text)), 415)
  t.match((await patch('{"broken', bad)).body.error.message, /JSON/)
  t.match((await admin.patch(`${path}?x=1`, { stock: -1 }, bad)).body.error.message, /Idempotency-Key/)
  t.equal(await statusOf(anybody.patch(path, {}, bad)), 401)

  const header = createKeyHeader()
  const stale = { ...header, 'if-match': '"9-abcdefghijkl"' }
  t.equal(await statusOf(patch({ stock: 1 }, header)), 428)
  const first = await patch({ stock: 1 }, { ...header, 'if-match': '*' })
  t.equal(first.status, 200)
  await repeats(t, patch({ stock: 1 }, header), first, 'before 428')
  await repeats(t, patch({ stock: 1 }, stale), first, 'before 412')
  t.equal(await codeOf(patch({ stock: 2 }, stale)), 'IDEMPOTENCY_KEY_REUSED')
  t.equal(await codeOf(patch({ stock: -1 }, stale)), 'VALIDATION_ERROR')
  const next = { 'if-match': first.headers.get('etag') ?? '' }
  t.equal(await statusOf(patch({ stock: 3 }, next)), 200, 'the ETag of a replayed reply is valid')
})

t.test('deleting a user deletes the records', async (t) => {
  const other = await person('manager')
  t.equal(await statusOf(other.client.post('/products', newProduct(), createKeyHeader())), 201)
  const records = () => database.run('select 1 from idempotency_keys where user_id = $1', [other.id])
  t.equal((await records()).length, 1)
  t.equal(await statusOf(admin.delete(`/users/${other.id}`)), 204)
  t.equal((await records()).length, 0)
})
