/** Fields of a version may be renamed, hidden and added; rows, rules and the other versions stay as they are. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { v2 } from '../../plugins/versioning/representation/v2.ts'
import { resources } from '../../src/app.ts'
import { postsResource } from '../fixtures/resources/posts.ts'
import { withChanges } from '../fixtures/serve.ts'
import { type Json, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { checkRefusals, getIds, getViolations } from '../helpers/replies.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'
import { productsResource } from '../version-3/products.ts'
import { v3 } from '../version-3/v3.ts'

/** Version 4 has the fields of version 3 in the typed envelope. */
const versions = [v1, v2, v3, { ...v2, version: 4 }].map((representation) => ({ representation }))

const entries: Record<string, VersionFields> = {
  users: {
    rename: { name: 'full_name', email: 'email_address', password: 'passphrase' },
    hide: ['status'],
  },
  'user-profiles': { rename: { user_id: 'owner_id' } },
  posts: {
    // Both names are those of other fields in version 1, and the id of the author is in the path.
    rename: { title: 'body', body: 'title', status: 'state' },
    hide: ['user_id'],
    add: {
      author: {
        schema: Type.String({ description: 'The author', examples: ['Ada'] }),
        value: ({ user_id }) => `${user_id}`,
      },
    },
  },
  products: productsResource.versions?.[3] ?? {},
  orders: {
    rename: { items: 'lines', status: 'state', number: 'reference', shipping_address: 'ship_to' },
    hide: ['note'],
  },
}
const adopted: ResourceDefinition[] = [productsResource, postsResource]
const definitions = resources.map((registered) => {
  const definition = adopted.find(({ name }) => name === registered.name) ?? registered.collection
  const fields = entries[definition.name] ?? {}
  return withChanges(registered, { ...definition, versions: { 3: fields, 4: fields } })
})

/** Returns a resource of version 1 as version 3 has it, without added fields. */
const toVersion3 = (name: string, fields: Json): Json =>
  Object.fromEntries(
    Object.entries(fields)
      .filter(([field]) => !entries[name]?.hide?.includes(field))
      .map(([field, value]) => [entries[name]?.rename?.[field] ?? field, value]),
  )

const settings = { PUBLIC_URL: 'http://127.0.0.1:3000' }
const { admin, adminId, database } = await testApp(t, settings, { versions, resources: definitions })
const product = { sku: createUniqueName('SKU'), name: 'Tea', price_amount: 5, stock: 9, status: 'active' }
const { id: productId } = (await admin.post('/v1/products', product)).body.data
const lines = [{ product_id: productId, quantity: 1 }]
const createOrder = async () => (await admin.post('/v3/orders', { lines })).body.data
const ship_to = { name: 'Ada', line1: '12', city: 'London', postal_code: 'SW1', country: 'GB' }

interface RoundTrip {
  name: string
  path: string
  /** Bodies with the names of version 1. */
  body: Json
  put: Json
  patch: Json
  /** The value of a hidden field, which requests of version 3 keep. */
  hidden?: Json
}

const roundTrips: RoundTrip[] = [
  {
    ...{ name: 'products', path: '/products', hidden: { stock: 7 } },
    body: { sku: createUniqueName('SKU'), name: 'Tea', price_amount: 5, currency: 'EUR' },
    put: { sku: createUniqueName('SKU'), name: 'Mate', price_amount: 7 },
    patch: { name: 'Rooibos', description: 'Red' },
  },
  {
    ...{ name: 'posts', path: `/users/${adminId}/posts` },
    body: { title: 'On', body: 'It can', status: 'draft' },
    put: { title: 'Off', body: 'It cannot', status: 'published' },
    patch: { body: 'Perhaps', status: 'archived' },
  },
]

for (const { name, path, body, put, patch, hidden } of roundTrips) {
  t.test(`each verb of ${name} in version 3 is that of version 1 with other names`, async (t) => {
    /** Checks a reply of version 3, and the fields that were sent, against the row as version 1 has it. */
    const check = async (reply: Reply, sent: Json = {}) => {
      t.ok(reply.status < 300, reply.text)
      const resource = [reply.body.data].flat()[0]
      const { data } = (await admin.get(`/v1${path}/${resource.id}`)).body
      const added = Object.entries(entries[name]?.add ?? {}).map(([field, { value }]) => [field, value(data)])
      t.same(resource, { ...toVersion3(name, data), ...Object.fromEntries(added) })
      t.match(data, sent)
      return resource
    }
    const created = await admin.post(`/v3${path}`, toVersion3(name, body))
    const { id } = await check(created, body)
    t.equal(created.status, 201)
    if (hidden) t.equal((await admin.patch(`/v1${path}/${id}`, hidden)).status, 200)
    const url = `/v3${path}/${id}`
    await check(await admin.get(url), { ...body, ...hidden })
    await check(await admin.get(`/v3${path}?limit=1`))
    const replaced = await check(await admin.put(url, toVersion3(name, put)), { ...put, ...hidden })
    await check(await admin.put(url, replaced), { ...put, ...hidden })
    await check(await admin.patch(url, toVersion3(name, patch)), { ...patch, ...hidden })
    t.equal((await admin.delete(url)).status, 204)
    t.equal((await admin.get(`/v1${path}/${id}`)).status, 404)
  })
}

t.test('version 4 has the same fields in the typed envelope', async (t) => {
  const typed = (attributes: Json) => ({ data: { type: 'products', attributes } })
  const url = `/v4/products/${productId}`
  const patched = await admin.patch(url, typed({ title: 'Tea' }))
  t.match(patched.body.data, { id: productId, type: 'products', attributes: { title: 'Tea' } })
  t.notHas(patched.body.data.attributes, 'name')
  const refused = await admin.patch(url, typed({ name: 'Tea' }))
  t.same(getViolations(refused), ['data.attributes.name UNKNOWN_FIELD'])
})

t.test('violations and messages have the names of the version', async (t) => {
  const order = `/v3/orders/${(await createOrder()).id}`
  const profile = (await admin.post('/v3/user-profiles', { owner_id: adminId })).body.data
  const unknown = [{ product_id: UNKNOWN_ID, quantity: 1 }]
  const user = { full_name: 'eleven brass cogs', email_address: 'a@example.com' }
  for (const [request, body, expected] of [
    // Old and hidden names are unknown, and an added field is read-only.
    [
      'POST /v3/products',
      { name: 'Tea', title: 5, stock: 1, label: 'x', price_amount: 1 },
      'code REQUIRED, label READ_ONLY, name UNKNOWN_FIELD, stock UNKNOWN_FIELD, title INVALID_TYPE',
    ],
    [`PATCH /v3/products/${productId}`, { label: 'x' }, 'label READ_ONLY'],
    ['POST /v1/products', { ...product, title: 'Tea' }, 'title UNKNOWN_FIELD'],
    ['POST /v3/products', { code: product.sku, title: 'x', price_amount: 1 }, 'code ALREADY_EXISTS'],
    ['POST /v1/products', product, 'sku ALREADY_EXISTS'],
    [`PATCH ${order}`, { state: 'shipped' }, 'state INVALID_TRANSITION'],
    ['POST /v3/orders', { lines: unknown }, 'lines.0.product_id NOT_FOUND'],
    [`PATCH ${order}`, { ship_to: { ...ship_to, name: null } }, 'ship_to.name INVALID_TYPE'],
    [`PUT /v3/user-profiles/${profile.id}`, { owner_id: UNKNOWN_ID }, 'owner_id READ_ONLY'],
    ['POST /v3/users', { ...user, passphrase: 'Eleven Brass Cogs' }, 'passphrase INVALID_VALUE'],
  ] as const) {
    const [method = '', path = ''] = request.split(' ')
    const reply = await admin.call(method, path, { body })
    t.equal(getViolations(reply).join(', '), expected, request)
  }
  t.equal((await admin.patch(order, { state: 'paid' })).status, 200)
  for (const [url, name] of [
    [order, 'state'],
    [order.replace('v3', 'v1'), 'status'],
  ] as const) {
    const { error } = (await admin.delete(url)).body
    t.equal(error.message, `An order with ${name} "paid" cannot be deleted`)
  }
})

t.test('query parameters have the names of the version, and a cursor belongs to the list', async (t) => {
  for (const name of ['Assam', 'Chai', 'Mate'])
    await admin.post('/v1/products', { ...product, name, sku: createUniqueName('Q') })
  await createOrder()
  for (const [inVersion3, inVersion1] of [
    ['/v3/products?sort=-title,code&limit=100', '/v1/products?sort=-name,sku&limit=100'],
    ['/v3/orders?state=pending&sort=reference', '/v1/orders?status=pending&sort=number'],
    ['/v3/products?title_prefix=assam&sort=code', '/v1/products?name_prefix=assam&sort=sku'],
    ['/v3/orders?state_not=paid&ship_to_null=true', '/v1/orders?status_not=paid&shipping_address_null=true'],
  ] as const) {
    const ids = getIds(await admin.get(inVersion3))
    t.ok(ids.length > 0, inVersion3)
    t.same(ids, getIds(await admin.get(inVersion1)), inVersion3)
  }
  await checkRefusals(t, admin, {
    '/v3/products?sort=name': ['sort INVALID_VALUE'],
    '/v3/products?fields=name': ['fields INVALID_VALUE'],
    '/v3/products?name_prefix=a': ['name_prefix UNKNOWN_PARAMETER'],
    '/v3/orders?status=pending': ['status UNKNOWN_PARAMETER'],
    '/v3/orders?state=lost': ['state INVALID_VALUE'],
    '/v3/orders?status_not=paid': ['status_not UNKNOWN_PARAMETER'],
    // Hidden fields.
    [`/v3/products/${productId}?fields=stock`]: ['fields INVALID_VALUE'],
    '/v3/orders?note_null=true': ['note_null UNKNOWN_PARAMETER'],
    '/v3/orders?user.status=active': ['user.status UNKNOWN_PARAMETER'],
    '/v3/users?status=active': ['status UNKNOWN_PARAMETER'],
  })
  const { body } = await admin.get(`/v3/products/${productId}?fields=title,label`)
  t.same(body.data, { id: productId, title: 'Tea', label: `${product.sku} Tea` })
  const { cursor } = (await admin.get('/v3/products?sort=title&limit=2')).body.pagination
  const [inVersion3, inVersion1] = await Promise.all([
    admin.get(`/v3/products?sort=title&limit=2&cursor=${cursor}`),
    admin.get(`/v1/products?sort=name&limit=2&cursor=${cursor}`),
  ])
  t.equal(getIds(inVersion3).length, 2)
  t.same(getIds(inVersion3), getIds(inVersion1))
})

t.test('tags are of one version, and preconditions of writes compare the revision', async (t) => {
  const tags: string[] = []
  for (const v of [1, 2, 3, 4])
    tags.push((await admin.get(`/v${v}/products/${productId}`)).headers.get('etag') ?? '')
  t.equal(new Set(tags).size, 4)
  const [first = '', , third = ''] = tags
  const url = `/v3/products/${productId}`
  t.equal((await admin.get(url, { 'if-none-match': third })).status, 304)
  t.equal((await admin.get(url, { 'if-none-match': first })).status, 200)
  t.equal((await admin.patch(url, { description: 'x' }, { 'if-match': first })).status, 200)
  t.equal((await admin.patch(url, { description: 'y' }, { 'if-match': third })).status, 412, 'stale')
})

t.test('included resources have the names of the version', async (t) => {
  const { id } = await createOrder()
  const { data } = (await admin.get(`/v3/orders/${id}?include=products,user`)).body
  const [row] = await database.run('select name from users where id = $1', [adminId])
  t.match(data, { products: [{ code: product.sku, title: 'Tea' }], user: { full_name: row?.name } })
  t.notHas(data.products[0], 'stock')
  t.notHas(data.user, 'email')
})

const readDocument = async (version: number) => (await admin.get(`/openapi/v${version}.json`)).body

t.test('the documents of other versions stay as they are', async (t) => {
  const { anybody } = await testApp(t, settings)
  for (const version of [1, 2]) {
    const { text } = await anybody.get(`/openapi/v${version}.json`)
    // The number of versions is greater here.
    const usual = JSON.parse(text, (name, value) =>
      name === 'api_version' && value.maximum ? { ...value, maximum: versions.length } : value,
    )
    const document = await readDocument(version)
    // Compared as texts: comparing 500 kB of objects takes seconds.
    for (const part of ['components', 'paths'])
      t.equal(JSON.stringify(document[part]), JSON.stringify(usual[part]), `${part} of version ${version}`)
  }
})

t.test('the OpenAPI document has the names of its version', async (t) => {
  const document = await readDocument(3)
  const { Product, ProductCreate, UserUpdate } = document.components.schemas
  const common = ['description', 'price_amount', 'currency', 'status']
  const names = ['id', 'code', 'title', ...common, 'created_at', 'updated_at', 'label']
  t.same(Object.keys(Product.properties), names)
  t.same(Object.keys(ProductCreate.properties), ['code', 'title', ...common])
  t.same(ProductCreate.required, ['code', 'title', 'price_amount'])
  t.match(UserUpdate.properties.current_password.description, 'your own `passphrase` or `email_address`')
  t.match(document.paths['/api/v3/users/{user_id}/posts'].get.description, 'with `state` published')

  const { operations, judge } = createReplyChecker(document)
  const listOrders = operations.find(({ operationId }) => operationId === 'listOrders')
  const parameters = listOrders?.declared.parameters.map(({ name }: Json) => name)
  t.ok(parameters.includes('state') && !parameters.includes('status'))
  const { status, headers, text } = await admin.get('/api/v3/orders?include=products,user')
  t.same(listOrders && judge(listOrders, { status, headers: Object.fromEntries(headers), text }), [])
})
