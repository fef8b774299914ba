/** Fields of a version may be renamed, hidden and added; rows, rules and the other versions stay as they are. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { ANONYMOUS_ACTOR } from '../../plugins/access/actor.ts'
import type { Mode } from '../../plugins/collection/actions.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { createBodyReader } from '../../plugins/collection/request/body.ts'
import { applyVersion } from '../../plugins/collection/versions.ts'
import { invalidBody } from '../../plugins/errors/index.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { v2 } from '../../plugins/versioning/representation/v2.ts'
import type { Violation } from '../../schemas/error.ts'
import { resources } from '../../src/app.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { checkRefusals, getIds, getViolations } from '../helpers/replies.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'
import { productsResource } from '../version-3/products.ts'
import { v3 } from '../version-3/v3.ts'

/** Version 4 has the fields of version 3 in the typed envelope. */
const versions = [v1, v2, v3, { ...v2, version: 4 }].map((representation) => ({ representation }))

const Short = (description: string) => Type.String({ description, examples: ['Ada'] })

const entries: Record<string, VersionFields> = {
  users: {
    rename: { name: 'full_name', email: 'email_address', password: 'passphrase', role: 'rank' },
    hide: ['status'],
    add: { initial: { schema: Short('The first letter'), value: ({ name }) => String(name)[0] ?? '' } },
  },
  'user-profiles': {
    // Two names are those of other fields in version 1.
    rename: { user_id: 'owner_id', bio: 'display_name', display_name: 'bio' },
    hide: ['locale'],
    add: { headline: { schema: Short('The name'), value: ({ display_name }) => `${display_name}` } },
  },
  products: productsResource.versions?.[3] ?? {},
  orders: {
    rename: {
      ...{ items: 'lines', status: 'state', number: 'reference' },
      ...{ shipping_address: 'ship_to', total_amount: 'total' },
    },
    hide: ['note'],
    add: { updated: { schema: Short('The last change'), value: ({ updated_at }) => `${updated_at}` } },
  },
}

const definitions: ResourceDefinition[] = resources.map((registered) => {
  const definition = registered.name === 'products' ? productsResource : registered
  const fields = entries[definition.name] ?? {}
  return { ...definition, versions: { 3: fields, 4: fields } }
})

const renamed = (name: string, field: string): string => entries[name]?.rename?.[field] ?? field
const isHidden = (name: string, field: string) => entries[name]?.hide?.includes(field) === true

/** Returns a resource of version 1 as version 3 has it, without added fields. */
const toVersion3 = (name: string, fields: Json): Json =>
  Object.fromEntries(
    Object.entries(fields)
      .filter(([field]) => !isHidden(name, field))
      .map(([field, value]) => [renamed(name, field), value]),
  )

/** Returns a resource without the fields that version 3 adds. */
const withoutAdded = (name: string, fields: Json): Json =>
  Object.fromEntries(
    Object.entries(fields).filter(([field]) => !Object.hasOwn(entries[name]?.add ?? {}, field)),
  )

const { admin, adminId, person } = await testApp(
  t,
  { PUBLIC_URL: 'http://127.0.0.1:3000' },
  { versions, resources: definitions },
)
let made = 0
const unique = (prefix: string) => `${prefix}-${++made}`

const create = async (path: string, body: Json, client: Client = admin): Promise<Json> => {
  const reply = await client.post(path, body)
  if (reply.status !== 201) throw new Error(`${reply.status} ${path}: ${reply.text}`)
  return reply.body.data
}

const createProduct = (fields: Json = {}) =>
  create('/v1/products', { sku: unique('SKU'), name: 'Tea', price_amount: 5, stock: 9, ...fields })
const createActive = () => createProduct({ status: 'active' })

interface RoundTrip {
  path: string
  body: Json
  put: Json
  patch: Json
  /** Values that requests of version 3 keep: of hidden fields, and of fields that PUT keeps. */
  constant: Json
}

/** The requests of the round trip below, with the names of version 1. */
const roundTrips: Record<string, () => Promise<RoundTrip>> = {
  users: async () => {
    const email = `${unique('ada')}@example.com`
    const body = { name: 'Ada', email, role: 'manager', password: 'eleven brass cogs' }
    const constant = { status: 'suspended', role: 'manager' }
    return { path: '/users', body, put: { name: 'Eve', email }, patch: { name: 'Ada L.' }, constant }
  },
  'user-profiles': async () => {
    const { id } = await create('/v1/users', { name: 'Eve', email: `${unique('eve')}@example.com` })
    const body = { user_id: id, display_name: 'Ada', bio: 'Notes' }
    const patch = { bio: null, location: 'London' }
    return { path: '/user-profiles', body, put: { bio: 'New' }, patch, constant: { locale: 'en-GB' } }
  },
  products: async () => ({
    path: '/products',
    body: { sku: unique('SKU'), name: 'Tea', price_amount: 5, currency: 'EUR' },
    put: { sku: unique('SKU'), name: 'Mate', price_amount: 7 },
    patch: { name: 'Rooibos', description: 'Red' },
    constant: { stock: 7 },
  }),
  orders: async () => {
    const buildItems = async () => [{ product_id: (await createActive()).id, quantity: 2 }]
    const shipping_address = { name: 'Ada', line1: '12', city: 'London', postal_code: 'SW1', country: 'GB' }
    return {
      path: '/orders',
      body: { items: await buildItems(), shipping_address },
      put: { items: await buildItems() },
      patch: { status: 'cancelled', shipping_address },
      constant: { note: 'Ring twice' },
    }
  },
}

for (const [name, prepare] of Object.entries(roundTrips)) {
  t.test(`each verb of ${name} in version 3 is that of version 1 with other names`, async (t) => {
    const { path, body, put, patch, constant } = await prepare()
    /** Checks a reply of version 3, and the fields that were sent, against the row as version 1 has it. */
    const check = async (reply: Reply, sent: Json = {}) => {
      t.ok(reply.status < 300, reply.text)
      const resource = [reply.body.data].flat()[0]
      const { data } = (await admin.get(`/v1${path}/${resource.id}`)).body
      t.same(withoutAdded(name, resource), toVersion3(name, data))
      for (const [field, { value }] of Object.entries(entries[name]?.add ?? {})) {
        t.equal(resource[field], value(data), field)
      }
      const { password: _, ...readable } = sent
      t.match(data, { ...readable, ...constant })
      return resource
    }
    const created = await admin.post(`/v3${path}`, toVersion3(name, body))
    t.equal(created.status, 201, created.text)
    const { id } = created.body.data
    const whole = (await admin.get(`/v1${path}/${id}`)).body.data
    t.same(withoutAdded(name, created.body.data), toVersion3(name, whole))
    t.equal((await admin.patch(`/v1${path}/${id}`, constant)).status, 200)
    const url = `/v3${path}/${id}`
    await check(await admin.get(url), body)
    await check(await admin.get(`/v3${path}?limit=1`), body)
    const replaced = await check(await admin.put(url, toVersion3(name, put)), put)
    await check(await admin.put(url, replaced), put)
    await check(await admin.patch(url, toVersion3(name, patch)), patch)
    t.equal((await admin.delete(url)).status, 204)
    t.equal((await admin.get(`/v1${path}/${id}`)).status, 404)
  })
}

t.test('version 4 has the same fields in the typed envelope', async (t) => {
  const { id } = await createProduct({ name: 'Tea' })
  const { data } = (await admin.get(`/v4/products/${id}`)).body
  t.match(data, { id, type: 'products', attributes: { title: 'Tea' } })
  t.notHas(data.attributes, 'name')
  const typed = (attributes: Json) => ({ data: { type: 'products', attributes } })
  const patched = await admin.patch(`/v4/products/${id}`, typed({ title: 'Mate' }))
  t.equal(patched.body.data.attributes.title, 'Mate')
  t.equal((await admin.patch(`/v4/products/${id}`, { title: 'Chai' })).status, 200, 'a flat body')
  const refused = await admin.patch(`/v4/products/${id}`, typed({ name: 'Tea' }))
  t.same(getViolations(refused), ['data.attributes.name UNKNOWN_FIELD'])
  const { sku } = await createProduct()
  const taken = await admin.patch(`/v4/products/${id}`, typed({ code: sku }))
  t.equal(taken.status, 409)
  t.same(getViolations(taken), ['data.attributes.code ALREADY_EXISTS'])
})

t.test('violations have the names of the version', async (t) => {
  const { id } = await createProduct()
  const url = `/v3/products/${id}`

  t.test('of the body: old and hidden names are unknown, an added field is read-only', async (t) => {
    const body = { name: 'Tea', title: 5, stock: 1, label: 'x', price_amount: 1 }
    t.same(getViolations(await admin.post('/v3/products', body)), [
      'code REQUIRED',
      'label READ_ONLY',
      'name UNKNOWN_FIELD',
      'stock UNKNOWN_FIELD',
      'title INVALID_TYPE',
    ])
    t.same(getViolations(await admin.patch(url, { label: 'x' })), ['label READ_ONLY'])
    t.same(getViolations(await admin.patch(url, { stock: 1 })), ['stock UNKNOWN_FIELD'])
    const put = { code: unique('SKU'), title: 'Tea', price_amount: 1, label: 'ignored' }
    t.equal((await admin.put(url, put)).status, 200)
    t.same(getViolations(await admin.put(url, { ...put, stock: 1 })), ['stock UNKNOWN_FIELD'])
    const body1 = { name: 'Tea', title: 'Tea', sku: 'A', price_amount: 1 }
    t.same(getViolations(await admin.post('/v1/products', body1)), ['title UNKNOWN_FIELD'])
  })

  t.test('of a unique constraint', async (t) => {
    const other = await createProduct()
    const { status, body } = await admin.patch(url, { code: other.sku })
    t.equal(status, 409)
    t.match(body.error, {
      message: 'The code is taken',
      details: [{ field: 'code', code: 'ALREADY_EXISTS', message: 'is taken' }],
    })
    const inVersion1 = await admin.post('/v1/products', { sku: other.sku, name: 'x', price_amount: 1 })
    t.match(inVersion1.body.error, { message: 'The sku is taken', details: [{ field: 'sku' }] })
  })

  t.test('of transitions, actions and merged objects', async (t) => {
    const product = await createActive()
    const lines = [{ product_id: product.id, quantity: 1 }]
    const order = await create('/v3/orders', { lines })
    const at = `/v3/orders/${order.id}`
    const shipped = await admin.patch(at, { state: 'shipped' })
    t.equal(shipped.status, 409)
    t.match(shipped.body.error.message, /^The state cannot change from "pending" to "shipped"/)
    t.match(shipped.body.error.details, [{ field: 'state', code: 'INVALID_TRANSITION' }])
    const much = await admin.patch(at, { lines: [{ product_id: product.id, quantity: 999 }] })
    t.same(getViolations(much), ['lines.0.quantity OUT_OF_RANGE'])
    const unknown = await admin.post('/v3/orders', { lines: [{ product_id: UNKNOWN_ID, quantity: 1 }] })
    t.same(getViolations(unknown), ['lines.0.product_id NOT_FOUND'])
    const merged = await admin.patch(at, { ship_to: { city: 'London' } })
    t.ok(getViolations(merged).includes('ship_to.name REQUIRED'), merged.text)
    t.equal((await admin.patch(at, { state: 'paid' })).status, 200)
    const late = await admin.patch(at, { lines: [{ product_id: product.id, quantity: 2 }] })
    t.equal(late.body.error.message, 'The lines of an order with state "paid" cannot be changed')
    const kept = await admin.delete(at)
    t.equal(kept.body.error.message, 'An order with state "paid" cannot be deleted')
    const old = await admin.delete(`/v1/orders/${order.id}`)
    t.equal(old.body.error.message, 'An order with status "paid" cannot be deleted')
  })

  t.test('of checks, guards and immutable fields', async (t) => {
    const { id: userId, bearer } = await person('member')
    const guessable = { full_name: 'eleven brass cogs', email_address: 'a@example.com' }
    const created = await admin.post('/v3/users', { ...guessable, passphrase: 'Eleven Brass Cogs' })
    t.match(created.body.error.details, [
      { field: 'passphrase', message: 'must differ from the e-mail address and the full_name' },
    ])
    const own = await bearer.patch('/v3/users/me', { passphrase: 'twelve brass cogs' })
    t.match(own.body.error.details, [
      { field: 'current_password', message: 'is required to change your own passphrase or email_address' },
    ])
    const profile = await create('/v3/user-profiles', { owner_id: userId })
    const moved = await admin.put(`/v3/user-profiles/${profile.id}`, { owner_id: adminId })
    t.same(getViolations(moved), ['owner_id READ_ONLY'])
    const empty = await admin.patch(`/v3/user-profiles/${profile.id}`, { bio: '' })
    t.same(getViolations(empty), ['bio TOO_SHORT'], 'swapped names')
  })
})

t.test('query parameters have the names of the version', async (t) => {
  const { id } = await createProduct({ name: 'Assam' })
  const { body } = await admin.get(`/v3/products/${id}?fields=title,label`)
  t.same(Object.keys(body.data).sort(), ['id', 'label', 'title'])
  t.match(body.data.label, / Assam$/)
  const labels = (await admin.get('/v3/products?fields=label&limit=2&sort=title')).body.data
  const wholes = (await admin.get('/v1/products?limit=2&sort=name')).body.data
  t.same(
    labels,
    wholes.map((each: Json) => ({ id: each.id, label: `${each.sku} ${each.name}` })),
  )

  for (const path of ['/v3/products', `/v3/products/${id}`]) {
    for (const hidden of ['name', 'stock']) {
      const { status, body } = await admin.get(`${path}?fields=${hidden}`)
      t.equal(status, 400)
      t.match(body.error.details, [{ field: 'fields', message: `"${hidden}" is not one of id, code, title` }])
    }
  }
  await create('/v3/orders', { lines: [{ product_id: (await createActive()).id, quantity: 1 }] })
  for (const [inVersion3, inVersion1] of [
    ['/v3/products?sort=-title,code&limit=100', '/v1/products?sort=-name,sku&limit=100'],
    ['/v3/orders?state=pending&sort=reference', '/v1/orders?status=pending&sort=number'],
    ['/v3/products?title_prefix=assam&sort=code', '/v1/products?name_prefix=assam&sort=sku'],
    ['/v3/orders?state_not=paid&ship_to_null=true', '/v1/orders?status_not=paid&shipping_address_null=true'],
    [
      '/v3/orders?total_min=1&total_max=1000000&state=pending,paid&sort=-total&limit=1',
      '/v1/orders?total_amount_min=1&total_amount_max=1000000&status=pending,paid&sort=-total_amount&limit=1',
    ],
  ] as const) {
    const ids = getIds(await admin.get(inVersion3))
    t.ok(ids.length > 0, inVersion3)
    t.same(ids, getIds(await admin.get(inVersion1)), inVersion3)
  }
  await checkRefusals(t, admin, {
    '/v3/products?sort=name': ['sort INVALID_VALUE'],
    '/v3/orders?total_amount_min=1': ['total_amount_min UNKNOWN_PARAMETER'],
    '/v3/orders?total_min=2&total_max=1': ['total_min CONFLICTING_PARAMETERS'],
    '/v3/orders?status=pending': ['status UNKNOWN_PARAMETER'],
    '/v3/orders?state=lost': ['state INVALID_VALUE'],
    '/v3/products?name_prefix=a': ['name_prefix UNKNOWN_PARAMETER'],
    '/v3/orders?state_not=lost': ['state_not INVALID_VALUE'],
    '/v3/orders?status_not=paid': ['status_not UNKNOWN_PARAMETER'],
    // Hidden fields.
    '/v3/orders?note_null=true': ['note_null UNKNOWN_PARAMETER'],
    '/v3/orders?user.status=active': ['user.status UNKNOWN_PARAMETER'],
    '/v3/users?status=active': ['status UNKNOWN_PARAMETER'],
  })
  t.equal((await admin.get('/v1/users?status=active')).status, 200)
})

t.test('a cursor belongs to the list, whatever the names of its version', async (t) => {
  for (const name of ['A', 'B', 'C']) await createProduct({ name })
  const first = await admin.get('/v3/products?sort=title&limit=2')
  const { cursor } = first.body.pagination
  const next = await admin.get(`/v3/products?sort=title&limit=2&cursor=${cursor}`)
  t.equal(next.status, 200)
  t.same(getIds(next), getIds(await admin.get(`/v1/products?sort=name&limit=2&cursor=${cursor}`)))
  t.notOk(getIds(first).some((id) => getIds(next).includes(id)))
})

t.test('entity tags differ between versions, and preconditions of writes compare the revision', async (t) => {
  const { id } = await createProduct()
  const [first, second, third, fourth] = await Promise.all(
    [1, 2, 3, 4].map(async (v) => (await admin.get(`/v${v}/products/${id}`)).headers.get('etag') ?? ''),
  )
  t.equal(new Set([first, second, third, fourth]).size, 4)
  const url = `/v3/products/${id}`
  t.equal((await admin.get(url, { 'if-none-match': `${third}` })).status, 304)
  t.equal((await admin.get(url, { 'if-none-match': `${first}` })).status, 200)
  t.equal((await admin.patch(url, { title: 'x' }, { 'if-match': `${first}` })).status, 200)
  t.equal((await admin.patch(url, { title: 'y' }, { 'if-match': `${third}` })).status, 412, 'stale')
})

t.test('an Idempotency-Key is bound to the version, and its stored response has the names', async (t) => {
  const headers = { 'idempotency-key': unique('key') }
  const body = { title: 'Tea', code: unique('SKU'), price_amount: 1 }
  const first = await admin.post('/v3/products', body, headers)
  const replayed = await admin.post('/v3/products', body, headers)
  t.equal(replayed.headers.get('idempotency-replayed'), 'true')
  t.same(replayed.body, first.body)
  t.match(replayed.body.data, { title: 'Tea', label: `${body.code} Tea` })
  const inVersion1 = { name: 'Tea', sku: unique('SKU'), price_amount: 1 }
  const other = await admin.post('/v1/products', inVersion1, headers)
  t.equal(other.status, 201, 'another write')
})

t.test('included resources have the names of the version', async (t) => {
  const product = await createActive()
  const order = await create('/v3/orders', { lines: [{ product_id: product.id, quantity: 1 }] })
  const { data } = (await admin.get(`/v3/orders/${order.id}?include=products,user`)).body
  const { sku: code, name: title } = product
  t.match(data.products, [{ code, title, label: `${code} ${title}` }])
  t.notHas(data.products[0], 'stock')
  t.equal(data.user.initial, data.user.full_name[0])
  t.notHas(data.user, 'email')
  const typed = (await admin.get('/v4/users/me?include=orders&fields=full_name')).body.data
  t.same(Object.keys(typed.attributes), ['full_name'])
  t.ok(typed.relationships.orders.some((each: Json) => each.attributes.state === 'pending'))
  const old = (await admin.get(`/v1/orders/${order.id}?include=products`)).body.data
  t.match(old.products, [{ sku: product.sku, name: product.name, stock: product.stock - 1 }])
  t.notHas(old.products[0], 'label')
})

t.test(
  'actions get the fields of a body with the names of the definition, and the defaults of hidden ones',
  async (t) => {
    const [resource] = compileResources([productsResource], [3])
    if (!resource) throw new Error('There is no resource')
    const versioned = applyVersion(resource, 3)
    const members = { title: 'Tea', code: 'A', price_amount: 1 }
    const check = (findViolations: () => Violation[]) => {
      if (findViolations().length > 0) throw invalidBody(findViolations())
    }
    const address = { actor: { ...ANONYMOUS_ACTOR, role: 'admin' } }
    const read = (mode: Mode) =>
      createBodyReader(versioned, v3, mode).read(Object({ address, body: members, check }), {}).fields
    const sent = { name: 'Tea', sku: 'A', price_amount: 1 }
    const defaults = { description: null, currency: 'USD', status: 'draft' }
    t.same(read('create'), { ...sent, ...defaults, stock: 0 })
    t.same(read('replace'), { ...sent, ...defaults }, 'PUT keeps the value of a hidden field')
    t.same(read('update'), sent)

    const [users] = compileResources(definitions, [3, 4]).filter(({ name }) => name === 'users')
    if (!users) throw new Error('There is no resource')
    const reader = createBodyReader(applyVersion(users, 3), v3, 'create')
    const signUp = { full_name: 'Ada', email_address: 'a@example.com', rank: 'admin' }
    const call = Object({ address: { actor: ANONYMOUS_ACTOR }, body: signUp, check })
    const refusal = t.throws(() => reader.read(call, { withheld: ['role', 'status'] }))
    t.match(refusal, { violations: [{ field: 'rank', code: 'READ_ONLY' }] })
  },
)

const readDocument = async (version: number) => (await admin.get(`/openapi/v${version}.json`)).body

t.test('the documents of other versions stay as they are', async (t) => {
  const { anybody } = await testApp(t, { PUBLIC_URL: 'http://127.0.0.1:3000' })
  for (const version of [1, 2]) {
    const { text } = await anybody.get(`/openapi/v${version}.json`)
    // The number of versions is greater here.
    const usual = JSON.parse(text, (name, value) =>
      name === 'api_version' && value.maximum ? { ...value, maximum: versions.length } : value,
    )
    const document = await readDocument(version)
    t.same(document.components, usual.components)
    t.same(document.paths, usual.paths)
  }
})

t.test('the OpenAPI document has the names of its version', async (t) => {
  const document3 = await readDocument(3)
  const names = (document: Json, schema: string) =>
    Object.keys(document.components.schemas[schema].properties)
  const common = ['description', 'price_amount', 'currency', 'status']
  t.same(names(document3, 'Product'), [
    ...['id', 'code', 'title', ...common, 'created_at', 'updated_at'],
    'label',
  ])
  t.same(names(document3, 'ProductCreate'), ['code', 'title', ...common])
  t.same(document3.components.schemas.ProductCreate.required, ['code', 'title', 'price_amount'])

  const { operations, faults, resolve, judge } = createReplyChecker(document3)
  const find = (id: string) => operations.find(({ operationId }) => operationId === id)
  const parameters = find('listOrders')?.declared.parameters.map(({ name }: Json) => name)
  t.ok(parameters.includes('state') && !parameters.includes('status'))
  t.match(
    document3.components.schemas.UserUpdate.properties.current_password.description,
    'your own `passphrase` or `email_address`',
  )
  for (const { declared } of operations) {
    for (const [type, media] of Object.entries<Json>(declared.requestBody?.content ?? {})) {
      for (const example of Object.values<Json>(media.examples ?? {})) {
        t.same(faults(media.schema, resolve(example).value), [], `${declared.operationId}: ${type}`)
      }
    }
  }
  for (const [operationId, url] of [
    ['listOrders', '/api/v3/orders?include=products,user'],
    ['getUser', '/api/v3/users/me?include=orders'],
  ] as const) {
    const operation = find(operationId)
    const { status, headers, text } = await admin.get(url)
    const answer = { status, headers: Object.fromEntries(headers), text }
    t.same(operation && judge(operation, answer), [], operationId)
  }
})
