/** In a version, resources may have other fields; rows, rules and the other versions stay as they are. */
import { type TObject, Type } from '@sinclair/typebox'
import t from 'tap'
import { products } from '../../docs/test/version-3/v3.ts'
import { mapResources, type ResourceMapping } from '../../resources/src/versions/map-resources.ts'
import { type Json, type Reply, testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { checkRefusals, getIds, getViolations } from '../../testing/helpers/replies.ts'
import { ordersResource, postsResource } from '../../testing/helpers/shop.ts'
import { createUniqueName } from '../../testing/helpers/versioned-client.ts'
import { createReplyChecker } from '../../testing/src/reply-checker.ts'
import { v1 } from '../src/versions/representation/v1.ts'
import { v2 } from '../src/versions/representation/v2.ts'

type Names = Readonly<Record<string, string>>

const renameKeys = (fields: Json, names: Names): Json =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [names[name] ?? name, value]))

/** Returns the mapping of a collection whose fields have other names in the version; some of them are not in it. */
function rename(schemas: ResourceMapping['schemas'], names: Names, lacking: string[] = []): ResourceMapping {
  const inCollection = Object.fromEntries(Object.entries(names).map(([name, named]) => [named, name]))
  const isThere = (name: string) => !lacking.includes(name)
  const toVersion = (fields: Json) =>
    renameKeys(Object.fromEntries(Object.entries(fields).filter(([name]) => isThere(name))), names)
  const renameSchema = ({ properties, title = '' }: TObject) =>
    Type.Object(toVersion(properties), { title, description: title })
  return {
    schemas: {
      read: renameSchema(schemas.read),
      create: renameSchema(schemas.create),
      change: renameSchema(schemas.change),
    },
    sources: Object.fromEntries(Object.entries(names).map(([name, named]) => [named, [name]])),
    lacking,
    toVersion,
    toCollection: (fields) => renameKeys(fields, inCollection),
  }
}

const mappings: Readonly<Record<string, ResourceMapping>> = {
  products,
  // Both names are those of other fields in the collection.
  posts: rename(postsResource.schemas, { title: 'body', body: 'title', status: 'state' }),
  orders: rename(
    ordersResource.schemas,
    { items: 'lines', status: 'state', number: 'reference', shipping_address: 'ship_to' },
    ['note'],
  ),
}

/** Version 4 has the fields of version 3 in the typed envelope. */
const others = [mapResources({ ...v1, version: 3 }, mappings), mapResources({ ...v2, version: 4 }, mappings)]
const versions = [v1, v2, ...others].map((representation) => ({ representation }))

/** Returns a resource of version 1 as version 3 has it. */
const toVersion3 = (name: string, fields: Json): Json => {
  const mapped: Json = mappings[name]?.toVersion(fields) ?? fields
  return Object.fromEntries(Object.entries(mapped).filter(([, value]) => value !== undefined))
}

const settings = { PUBLIC_URL: 'http://127.0.0.1:3000' }
const { admin, adminId, database } = await testApp(t, settings, { versions })
const product = { sku: createUniqueName('SKU'), name: 'Tea', price_amount: 5, stock: 9, status: 'active' }
const { id: productId } = (await admin.post('/v1/products', product)).body.data
const { price_amount: _, currency: __, ...rest } = products.schemas.read.properties
const price = Type.Object({ amount: Type.Integer(), currency: Type.String() }, { description: 'The price' })
const read = Type.Object({ ...rest, price }, { title: 'Product', description: 'Goods' })
const priced: ResourceMapping = {
  ...products,
  schemas: { ...products.schemas, read },
  sources: { ...products.sources, price: ['price_amount', 'currency'] },
  toVersion({ price_amount: amount, currency, ...others }) {
    const shown = amount === undefined ? {} : { price: { amount, currency } }
    return { ...products.toVersion(others), ...shown }
  },
}
const version = { representation: mapResources({ ...v1, version: 3 }, { products: priced }) }
const { admin: client } = await testApp(t, settings, {
  versions: [{ representation: v1 }, version],
  database,
})
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
      t.same(resource, toVersion3(name, data))
      t.match(data, sent)
      return resource
    }
    /** Without fields that only responses have. */
    const toBody = ({ ...fields }: Json) => {
      const { label: _, ...sent } = toVersion3(name, fields)
      return sent
    }
    const created = await admin.post(`/v3${path}`, toBody(body))
    const { id } = await check(created, body)
    t.equal(created.status, 201)
    if (hidden) t.equal((await admin.patch(`/v1${path}/${id}`, hidden)).status, 200)
    const url = `/v3${path}/${id}`
    await check(await admin.get(url), { ...body, ...hidden })
    await check(await admin.get(`/v3${path}?limit=1`))
    const replaced = await check(await admin.put(url, toBody(put)), { ...put, ...hidden })
    await check(await admin.put(url, replaced), { ...put, ...hidden })
    await check(await admin.patch(url, toBody(patch)), { ...patch, ...hidden })
    t.equal((await admin.delete(url)).status, 204)
    t.equal((await admin.get(`/v1${path}/${id}`)).status, 404)
  })
}

t.test('version 4 has the same fields in the typed envelope', async (t) => {
  const typed = (attributes: Json) => ({ data: { type: 'products', attributes } })
  const url = `/v4/products/${productId}`
  const patched = await admin.patch(url, typed({ title: 'Tea' }))
  t.match(patched.body.data, { id: productId, type: 'products', attributes: { title: 'Tea' } })
  t.notOk('name' in patched.body.data.attributes)
  const refused = await admin.patch(url, typed({ name: 'Tea' }))
  t.same(getViolations(refused), ['data.attributes.name UNKNOWN_FIELD'])
})

t.test('what is wrong has the names of the version', async (t) => {
  const order = `/v3/orders/${(await createOrder()).id}`
  const unknown = [{ product_id: UNKNOWN_ID, quantity: 1 }]
  for (const [request, body, expected] of [
    // Names of the collection are unknown, and an added field is read-only.
    [
      'POST /v3/products',
      { name: 'Tea', title: 5, stock: 1, label: 'x', price_amount: 1 },
      'code REQUIRED, label READ_ONLY, name UNKNOWN_FIELD, stock UNKNOWN_FIELD, title INVALID_TYPE',
    ],
    [`PATCH /v3/products/${productId}`, { label: 'x' }, 'label READ_ONLY'],
    ['POST /v1/products', { ...product, title: 'Tea' }, 'title UNKNOWN_FIELD'],
    ['POST /v3/products', { code: product.sku, title: 'x', price_amount: 1 }, 'code ALREADY_EXISTS'],
    [`PATCH ${order}`, { state: 'shipped' }, 'state INVALID_TRANSITION'],
    ['POST /v3/orders', { lines: unknown }, 'lines.0.product_id NOT_FOUND'],
    [`PATCH ${order}`, { ship_to: { ...ship_to, name: null } }, 'ship_to.name INVALID_TYPE'],
  ] as const) {
    const [method = '', path = ''] = request.split(' ')
    const reply = await admin.call(method, path, { body })
    t.equal(getViolations(reply).join(', '), expected, request)
  }
})

t.test('the start says which field is made of what', async (t) => {
  const { sources: _, ...unnamed } = products
  const start = (mapping: ResourceMapping, name = 'products') =>
    testApp(
      t,
      {},
      {
        versions: [
          { representation: v1 },
          { representation: mapResources({ ...v1, version: 3 }, { [name]: mapping }) },
        ],
      },
    )
  await t.rejects(start(unnamed), {
    message:
      'version 3: products: the collection has no field "code"; name those of which it is made in `sources: { code: [...] }`',
  })
  await t.rejects(start({ ...products, sources: { ...products.sources, label: ['skew'] } }), {
    message: 'version 3: products: the source "skew" of "label" is no field of the collection',
  })
  await t.rejects(start(products, 'goods'), { message: 'version 3: there is no collection goods' })
})

t.test('parameters have the names of the version', async (t) => {
  for (const name of ['Assam', 'Chai', 'Mate'])
    await admin.post('/v1/products', {
      ...product,
      name,
      sku: createUniqueName('Q'),
      price_amount: name.length,
    })
  await createOrder()
  for (const [list, same] of [
    ['products?sort=-title,code&limit=100', 'products?sort=-name,sku&limit=100'],
    ['products?sort=title&order=desc', 'products?sort=name&order=desc'],
    ['products?title_prefix=assam&sort=code', 'products?name_prefix=assam&sort=sku'],
    [`products?code=${product.sku}`, `products?sku=${product.sku}`],
    ['products?price_amount_min=5&sort=code', 'products?price_amount_min=5&sort=sku'],
    ['products?search=chai', 'products?search=chai'],
    ['orders?state=pending&sort=reference', 'orders?status=pending&sort=number'],
    ['orders?state_not=paid,shipped', 'orders?status_not=paid,shipped'],
    ['orders', 'orders'],
    // The names of two fields are exchanged.
    [`users/${adminId}/posts?sort=body`, `users/${adminId}/posts?sort=title`],
  ] as const) {
    for (const version of [3, 4]) {
      const ids = getIds(await admin.get(`/v${version}/${list}`))
      t.ok(ids.length > 0 || list.includes('posts'), list)
      t.same(ids, getIds(await admin.get(`/v1/${same}`)), list)
    }
  }
  for (const version of [3, 4])
    await checkRefusals(t, admin, {
      [`/v${version}/products?sort=name`]: ['sort INVALID_VALUE'],
      [`/v${version}/products?sku=x`]: ['sku UNKNOWN_PARAMETER'],
      [`/v${version}/products?name_prefix=x`]: ['name_prefix UNKNOWN_PARAMETER'],
      [`/v${version}/products?sort=label`]: ['sort INVALID_VALUE'],
      [`/v${version}/products?stock_min=1`]: ['stock_min UNKNOWN_PARAMETER'],
      [`/v${version}/products?fields=sku`]: ['fields INVALID_VALUE'],
      [`/v${version}/products/${productId}?fields=stock`]: ['fields INVALID_VALUE'],
      [`/v${version}/orders?status=pending`]: ['status UNKNOWN_PARAMETER'],
      [`/v${version}/orders?note_null=true`]: ['note_null UNKNOWN_PARAMETER'],
      [`/v${version}/orders/aggregates?measures=count&group_by=status`]: ['group_by INVALID_VALUE'],
    })
  const refused = await admin.get('/v3/products?sort=sku')
  t.match(refused.body.error.details[0].message, '"sku" is not one of')
  t.notMatch(refused.body.error.details[0].message, /name|stock/)
  await checkRefusals(t, admin, { '/v1/products?sort=title': ['sort INVALID_VALUE'] })
})

t.test('the fields that are selected are those of the version, and no others', async (t) => {
  const select = async (fields: string) =>
    (await admin.get(`/v3/products/${productId}?fields=${fields}`)).body.data
  t.same(await select('id'), { id: productId })
  t.same(await select('title'), { id: productId, title: 'Tea' })
  const label = `${product.sku} Tea`
  t.same(await select('label'), { id: productId, label }, 'without those of which it is made')
  t.same(await select('label,code'), { id: productId, code: product.sku, label })
  const list = `/v3/products?code=${product.sku}&fields=label`
  t.same((await admin.get(list)).body.data, [{ id: productId, label }])
  const tagOf = async (fields: string) =>
    (await admin.get(`/v3/products/${productId}?fields=${fields}`)).headers.get('etag')
  t.not(await tagOf('label'), await tagOf('label,code'), 'which are made of the same fields')
  const typed = (await admin.get(`/v4/products/${productId}?fields=label`)).body.data
  t.same(typed, { id: productId, type: 'products', attributes: { label } })
  t.same(JSON.parse((await admin.get(list, { accept: 'application/x-ndjson' })).text), {
    id: productId,
    label,
  })
  t.equal((await admin.get(list, { accept: 'text/csv' })).text, `id,label\r\n${productId},${label}\r\n`)
})

t.test('links, cursors and aggregates have the names of the version', async (t) => {
  const first = await admin.get('/v3/products?sort=-title&limit=1')
  t.match(first.headers.get('link'), /\/v3\/products\?sort=-title&limit=1&cursor=[^>]+>; rel="next"/)
  const { cursor } = first.body.pagination
  const inVersion1 = await admin.get(`/v1/products?sort=-name&limit=1&cursor=${cursor}`)
  const next = await admin.get(`/v3/products?sort=-title&limit=1&cursor=${cursor}`)
  t.same(getIds(next), getIds(inVersion1), 'a cursor is valid in every version')
  const figures = '/v3/orders/aggregates?measures=count,sum:total_amount&group_by=state&state=pending'
  const same = '/v1/orders/aggregates?measures=count,sum:total_amount&group_by=status&status=pending'
  const { data } = (await admin.get(figures)).body
  const [group] = (await admin.get(same)).body.data
  t.same(data, [{ ...group, group: { state: 'pending' } }])
})

t.test('the first source of a field is compared, unless another field is made of it alone', async (t) => {
  const list = '/v3/products?price_min=4&price_max=5&sort=-price,code&fields=price'
  const same =
    '/v1/products?price_amount_min=4&price_amount_max=5&sort=-price_amount,sku&fields=price_amount,currency'
  const { data } = (await client.get(list)).body
  const expected = (await client.get(same)).body.data
  t.ok(data.length > 1)
  t.same(
    data,
    expected.map(({ id, price_amount: amount, currency }: Json) => ({ id, price: { amount, currency } })),
  )
  await checkRefusals(t, client, {
    '/v3/products?price_amount_min=4': ['price_amount_min UNKNOWN_PARAMETER'],
  })
  const { text } = await client.get(`/v3/products?code=${product.sku}&fields=price`, { accept: 'text/csv' })
  t.equal(text, `id,price\r\n${productId},"{""amount"":5,""currency"":""USD""}"\r\n`)
})

t.test('exports and imports have the fields of the version', async (t) => {
  const path = `/v3/products?code=${product.sku}`
  const { data } = (await admin.get(`/v3/products/${productId}`)).body
  const rows = await admin.get(path, { accept: 'application/x-ndjson' })
  t.same(JSON.parse(rows.text), data)
  const { text } = await admin.get(`${path}&fields=code,title`, { accept: 'text/csv' })
  t.equal(text, `id,code,title\r\n${productId},${product.sku},Tea\r\n`)
  const whole = await admin.get(path, { accept: 'text/csv' })
  t.equal(whole.text.split('\r\n')[0], Object.keys(data).join())
  for (const [type, body, expected] of [
    ['text/csv', `code,title,price_amount\n${product.sku},Mint,6\n`, { updated: 1, unchanged: 0 }],
    ['text/csv', whole.text, { updated: 1, unchanged: 0 }],
    ['application/x-ndjson', `${JSON.stringify({ ...data, title: 'Tea' })}\n`, { updated: 0, unchanged: 1 }],
  ] as const) {
    const to = '/v3/products?on_conflict=code'
    const reply = await admin.call('POST', to, { headers: { 'content-type': type }, body })
    t.same([reply.status, reply.body.data], [200, { created: 0, ...expected }], reply.text)
  }
  t.match((await admin.get(`/v1/products/${productId}`)).body.data, { name: 'Tea', price_amount: 5 })
  const csv = { headers: { 'content-type': 'text/csv' } }
  const old = await admin.call('POST', '/v3/products', { ...csv, body: 'sku,name,price_amount\nx,Mint,6\n' })
  t.same(getViolations(old).slice(0, 2), ['rows.1.code REQUIRED', 'rows.1.name UNKNOWN_FIELD'])
  const taken = await admin.call('POST', '/v3/products', {
    ...csv,
    body: `code,title,price_amount\n${product.sku},Mint,6\n`,
  })
  t.match(taken.body.error.details, [{ field: 'rows.1.code', code: 'ALREADY_EXISTS' }])
  const unknown = await admin.call('POST', '/v3/products?on_conflict=sku', { ...csv, body: 'code\nx\n' })
  t.same(getViolations(unknown), ['on_conflict INVALID_VALUE'])
  t.equal(
    (await admin.post('/v3/products', { code: product.sku, title: 'x', price_amount: 1 })).body.error.message,
    'The code is taken',
  )
})

t.test('rows of an NDJSON export are imported in the same version', async (t) => {
  const importRows = (version: number, rows: readonly Json[], query = '') =>
    admin.call('POST', `/v${version}/products${query}`, {
      headers: { 'content-type': 'application/x-ndjson' },
      body: rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
    })
  for (const version of [3, 4]) {
    const sku = createUniqueName('ROW')
    const toRow = (fields: Json) =>
      version === 3 ? fields : { id: UNKNOWN_ID, type: 'products', attributes: fields }
    const created = await importRows(version, [toRow({ code: sku, title: 'Oolong', price_amount: 3 })])
    t.same([created.status, created.body.data?.created], [200, 1], created.text)
    const path = `/v${version}/products?code=${sku}`
    const [row] = (await admin.get(path, { accept: 'application/x-ndjson' })).text.split('\n')
    const again = await importRows(version, [JSON.parse(row ?? '')], '?on_conflict=code')
    t.same(again.body.data, { created: 0, updated: 0, unchanged: 1 })
    const refused = await importRows(version, [
      toRow({ code: sku, title: 5, price_amount: 3 }),
      toRow({ sku: 'X', name: 'Mate', price_amount: 3 }),
    ])
    const prefix = version === 3 ? '' : 'attributes.'
    const wrong = ['1.title INVALID_TYPE', '2.code REQUIRED', '2.name UNKNOWN_FIELD', '2.sku UNKNOWN_FIELD']
    const expected = [...wrong, '2.title REQUIRED'].map((text) => `rows.${text.replace('.', `.${prefix}`)}`)
    t.same(getViolations(refused), expected)
    t.same(
      getViolations(await importRows(version, [toRow({ title: 'x', price_amount: 3 })], '?on_conflict=code')),
      [`rows.1.${prefix}code REQUIRED`],
    )
  }
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
  t.match(data, { products: [{ code: product.sku, title: 'Tea' }], user: { name: row?.name } })
  t.notOk('stock' in data.products[0])
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

t.test('the OpenAPI document has the fields of its version', async (t) => {
  const document = await readDocument(3)
  const { Product, ProductCreate, OrderUpdate } = document.components.schemas
  const common = ['description', 'price_amount', 'currency', 'status']
  const names = ['id', 'code', 'title', ...common, 'label', 'created_at', 'updated_at']
  t.same(Object.keys(Product.properties), names)
  t.same(Object.keys(ProductCreate.properties), ['code', 'title', ...common])
  t.same(ProductCreate.required, ['code', 'title', 'price_amount'])
  t.ok('ship_to' in OrderUpdate.properties)

  const { get, post } = document.paths['/api/v3/products']
  const resolve = (part: Json): Json =>
    part.$ref ? document.components.parameters[part.$ref.split('/').at(-1) ?? ''] : part
  const parameters: Json = Object.fromEntries(
    get.parameters.map((each: Json) => [resolve(each).name, resolve(each).schema]),
  )
  const own = Object.keys(parameters).filter(
    (name) => !/^(?:If-|limit|cursor|page|order|created|updated)/.test(name),
  )
  t.same(own, [
    ...[
      'sort',
      'status',
      'code',
      'currency',
      'status_not',
      'description_null',
      'title_prefix',
      'code_prefix',
    ],
    ...['price_amount_min', 'price_amount_max', 'search', 'fields'],
  ])
  t.same(parameters.fields.items.enum, names)
  t.ok(parameters.sort.items.enum.includes('-title'))
  const texts = get.parameters.map((each: Json) => [resolve(each).description, resolve(each).schema])
  t.notMatch(JSON.stringify(texts), /\b(?:sku|name|stock)\b/, 'nor in descriptions')
  t.match(post['x-import']['text/csv'].example, /^code,title,/)
  t.match(get['x-export']['text/csv'].example, /^id,code,title,/)
  const whole = JSON.stringify(document)
  t.ok(whole.includes('The code is taken'))
  t.notOk(whole.includes('The sku is taken'))
  const { measures } = Object.fromEntries(
    document.paths['/api/v3/orders/aggregates'].get.parameters.map((each: Json) => {
      const { name, schema } = resolve(each)
      return [name, schema]
    }),
  )
  t.ok(measures.items.enum.includes('sum:total_amount'))

  const { operations, judge } = createReplyChecker(document)
  const listOrders = operations.find(({ operationId }) => operationId === 'listOrders')
  const { status, headers, text } = await admin.get('/api/v3/orders?include=products,user')
  t.same(listOrders && judge(listOrders, { status, headers: Object.fromEntries(headers), text }), [])
})
