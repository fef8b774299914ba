/** PUT replaces a resource, PATCH merges into it, and both keep read-only fields. */
import { verify } from '@node-rs/argon2'
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { createNotes } from '../../testing/helpers/notes.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  omitId,
} from '../../testing/helpers/versioned-client.ts'

const { admin: client, database } = await testApp(t, {}, await createNotes(t))
const admin = createVersionedClient(client, 1)
const address = () => `${createUniqueName('put')}@example.com`

/** Creates a product, a user, a profile, a note and an order, and returns their paths in this order. */
async function createOneOfEach() {
  const create = async (path: string, body: object) => (await admin.post(path, body)).data
  const product = await createActiveProduct(admin, { description: 'Warm', stock: 20 })
  const user = await create('/users', { name: 'Ada', email: address(), role: 'manager' })
  const profile = await create('/user-profiles', { user_id: user.id, bio: 'One\ntwo', locale: 'de' })
  const notes = `/users/${user.id}/notes`
  const note = await create(notes, { title: 'a', body: ' b ', status: 'published' })
  const order = await create('/orders', {
    user_id: user.id,
    items: [{ product_id: product.id, quantity: 2 }],
    note: 'Ring',
    shipping_address: { name: 'a', line1: 'b', city: 'c', postal_code: 'd', country: 'GB' },
  })
  const paths = [`/products/${product.id}`, `/users/${user.id}`, `/user-profiles/${profile.id}`]
  return [...paths, `${notes}/${note.id}`, `/orders/${order.id}`]
}

t.test('PUT of a resource as it was read changes nothing, and read-only fields are ignored', async (t) => {
  for (const path of await createOneOfEach()) {
    const { data, etag } = await admin.get(path)
    const late = { created_at: '2000-01-01T00:00:00.000Z', updated_at: 5 }
    const { user_id, ...rest } = omitId(data)
    const upper = { ...data, id: data.id.toUpperCase() }
    for (const body of [data, omitId(data), { ...omitId(data), ...late }, upper, rest]) {
      const put = await admin.put(path, body)
      t.same([put.status, put.data, put.etag], [200, data, etag], path)
    }
    const typed = await client.get(`/v2${path}`)
    const { id, attributes } = typed.body.data
    for (const body of [{ data: typed.body.data }, attributes, { id, ...attributes }]) {
      const put = await client.put(`/v2${path}`, body)
      t.same([put.status, put.body.data], [200, typed.body.data], path)
      t.equal(put.headers.get('etag'), typed.headers.get('etag'))
    }
    const refused = [UNKNOWN_ID, null, 5, ''].map((id) => [{ ...data, id }, 'id READ_ONLY'] as const)
    for (const [body, violation] of [
      ...refused,
      [{ ...omitId(data), revision: 1 }, 'revision UNKNOWN_FIELD'],
      ...(user_id ? [[{ ...rest, user_id: UNKNOWN_ID }, 'user_id READ_ONLY'] as const] : []),
    ]) {
      const { status, violations } = await admin.put(path, body)
      t.same([status, violations], [422, [violation]])
    }
  }
})

t.test('PUT sets absent fields to their defaults', async (t) => {
  const [product = '', user = '', profile = '', note = '', order = ''] = await createOneOfEach()
  const sku = createUniqueName('PUT')
  const sent = { sku, name: 'New', price_amount: 7 }
  const defaults = { description: null, currency: 'USD', stock: 0, status: 'draft' }
  t.match((await admin.put(product, sent)).data, { ...sent, ...defaults })
  t.match((await admin.put(profile, {})).data, { bio: null, locale: null, display_name: null })
  const text = { title: 'x', body: 'y' }
  t.match((await admin.put(note, text)).data, { ...text, status: 'draft' })
  const { items } = (await admin.get(order)).data
  t.match((await admin.put(order, { items })).data, { note: null, shipping_address: null, items })
  const email = address()
  t.match((await admin.put(user, { name: 'New', email })).data, { name: 'New', email })
})

t.test('PUT keeps role, status and password of a user, and the status of an order', async (t) => {
  const email = address()
  const password = 'correct horse battery'
  const sent = { name: 'Ada', email, password, role: 'manager', status: 'suspended' }
  const { id } = (await admin.post('/users', sent)).data
  const readHash = async () => {
    const [row] = await database.run('select password_hash from users where id = $1', [id])
    return String(row?.password_hash)
  }
  const hash = await readHash()
  const put = await admin.put(`/users/${id}`, { name: 'Bea', email })
  t.match(put.data, { name: 'Bea', role: 'manager', status: 'suspended' })
  t.equal(await readHash(), hash)
  await admin.put(`/users/${id}`, { name: 'Bea', email, password: 'another horse battery' })
  t.ok(await verify(await readHash(), 'another horse battery'))
  const access = { role: 'member', status: 'active' }
  t.match((await admin.put(`/users/${id}`, { ...sent, ...access })).data, access)
  const order = (await createOneOfEach())[4] ?? ''
  await admin.patch(order, { status: 'paid' })
  const { items } = (await admin.get(order)).data
  t.equal((await admin.put(order, { items })).data.status, 'paid')
  t.equal((await admin.put(order, { items, status: 'pending' })).status, 409)
})

t.test('PUT of an unknown id is a 404 and creates nothing', async (t) => {
  for (const [path, body] of [
    ['/products', { sku: createUniqueName('X'), name: 'a', price_amount: 1 }],
    ['/users', { name: 'a', email: address() }],
    ['/user-profiles', {}],
    ['/users/me/notes', { title: 'a', body: 'b' }],
    ['/orders', { items: [{ product_id: UNKNOWN_ID, quantity: 1 }] }],
  ] as const) {
    t.equal((await admin.put(`${path}/${UNKNOWN_ID}`, body)).status, 404)
    t.equal((await admin.get(`${path}/${UNKNOWN_ID}`)).status, 404)
  }
})

t.test('PATCH changes only the fields that are sent, and none that are read-only', async (t) => {
  const changes = [{ stock: 0 }, { name: 'New' }, { bio: null }, { title: 'New' }, { note: null }]
  const readOnly =
    'id user_id created_at updated_at number total_amount published_at email_verified_at'.split(' ')
  for (const [i, path] of (await createOneOfEach()).entries()) {
    const before = await admin.get(path)
    // Items are those of the server, and the currency of an order is read-only.
    const fixed = [...readOnly, 'items', ...('number' in before.data ? ['currency'] : [])]
    const members = Object.entries(omitId(before.data)).filter(([name]) => !fixed.includes(name))
    for (const body of [
      {},
      Object.fromEntries(members),
      ...members.map(([name, value]) => ({ [name]: value })),
    ]) {
      const reply = await admin.patch(path, body)
      const found = [reply.status, reply.etag, reply.data]
      t.same(found, [200, before.etag, before.data], `${path} ${JSON.stringify(body)}`)
    }
    const names = readOnly.filter((name) => name in before.data)
    const refused = await admin.patch(
      path,
      Object.fromEntries(names.map((name) => [name, before.data[name]])),
    )
    t.same(refused.violations, names.map((name) => `${name} READ_ONLY`).sort(), 'even unchanged')
    const kept = await admin.get(path)
    t.same([kept.etag, kept.data], [before.etag, before.data])
    t.equal(kept.headers.get('last-modified'), before.headers.get('last-modified'))

    const after = await admin.patch(path, changes[i])
    t.equal(after.status, 200)
    t.same({ ...after.data, updated_at: '' }, { ...before.data, ...changes[i], updated_at: '' }, path)
    t.ok(after.data.updated_at >= before.data.updated_at)
    t.not(after.etag, before.etag)
    const read = await admin.get(path)
    t.same([read.data, read.etag], [after.data, after.etag])
  }
})

t.test('null clears a nullable field and is rejected for others', async (t) => {
  const profile = ['display_name', 'bio', 'avatar_url', 'website_url', 'location', 'time_zone', 'locale']
  const fields: [nullable: string[], required: string[]][] = [
    [['description'], ['sku', 'name', 'price_amount', 'currency', 'stock', 'status']],
    [[], ['name', 'email', 'password', 'role', 'status']],
    [profile, []],
    [[], ['title', 'body', 'status']],
    [
      ['note', 'shipping_address'],
      ['items', 'status'],
    ],
  ]
  for (const [i, path] of (await createOneOfEach()).entries()) {
    const [nullable = [], required = []] = fields[i] ?? []
    for (const name of nullable) t.equal((await admin.patch(path, { [name]: null })).data[name], null, name)
    for (const name of required) {
      const reply = await admin.patch(path, { [name]: null })
      t.equal(reply.status, 422)
      t.same(reply.violations, [`${name} INVALID_TYPE`])
    }
  }
})

t.test('each concurrent change has its own revision and ETag', async (t) => {
  const product = await createActiveProduct(admin, { stock: 0 })
  const path = `/products/${product.id}`
  const changes = Array.from({ length: 20 }, (_, i) => (i % 2 ? { stock: 100 + i } : { name: `Name ${i}` }))
  const replies = await Promise.all(changes.map((change) => admin.patch(path, change)))
  for (const [i, { status, data }] of replies.entries()) {
    t.equal(status, 200)
    t.match(data, changes[i] ?? {}, 'the answer has what was asked for')
  }
  const tags = new Set(replies.map(({ headers }) => headers.get('etag')))
  t.equal(tags.size, changes.length, 'a tag for each')
  const [row] = await database.run('select revision from products where id = $1', [product.id])
  t.equal(row?.revision, 1 + changes.length)
})
