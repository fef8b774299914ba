/** The client package reads and writes every collection, and its errors have a class per status. */
import t from 'tap'
import {
  ApiError,
  AuthenticationError,
  ConflictError,
  createClient,
  NotFoundError,
  PermissionError,
  PreconditionFailedError,
  type Resource,
  ValidationError,
} from '../../../../client/src/index.ts'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../../../helpers/app.ts'
import { createRecordedFetch } from '../../../helpers/recorded-fetch.ts'
import { createUniqueName } from '../../../helpers/versioned-client.ts'

const createTea = (values: { stock?: number } = {}) => ({
  sku: createUniqueName('TEA'),
  name: 'Tea',
  price_amount: 500,
  status: 'active' as const,
  ...values,
})

t.test('collections', async (t) => {
  const app = await testApp(t)
  const { base: baseUrl } = app
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })

  t.test('a resource is created, read, replaced, updated and deleted', async (t) => {
    const response = await client.products.create(createTea()).withResponse()
    t.match(response, { status: 201, etag: /^"1-/, requestId: /./ })
    const created = response.data
    t.same(await client.products.get(created.id), created)
    const replaced = await client.products.replace(created.id, { ...createTea(), name: 'Green tea' })
    t.equal(replaced.name, 'Green tea')
    const updated = await client.products.update(created.id, { description: 'Sencha' })
    t.equal(updated.description, 'Sencha')
    t.equal(await client.products.delete(created.id), undefined)
    await t.rejects(client.products.get(created.id), NotFoundError)
  })

  t.test('posts belong to a user, and `me` is the caller', async (t) => {
    const { id: userId, key: apiKey } = await app.person('member')
    const { users } = createClient({ baseUrl, apiKey })
    t.equal((await users.get('me')).id, userId)
    const own = users.posts('me')
    const post: Resource<'/api/v1/users/{user_id}/posts'> = await own.create({ title: 'First', body: 'Text' })
    t.match(post, { title: 'First', user_id: userId })
    t.same(await users.posts(userId).list().toArray(), [post])
    t.match(await own.get(post.id).withResponse(), { status: 200, requestId: /./, etag: /^"1-/ })
    await t.rejects(own.create({ title: '', body: 'Text' }), ValidationError)
    await own.delete(post.id)
    t.same(await users.posts(userId).list().toArray(), [])
  })

  t.test('`include` adds related resources, and `fields` leaves fields out', async (t) => {
    const product = await client.products.create(createTea({ stock: 5 }))
    const created = await client.orders.create({ items: [{ product_id: product.id, quantity: 2 }] })
    const order = await client.orders.get(created.id, { include: ['user', 'products'], fields: ['number'] })
    t.same(Object.keys(order).sort(), ['id', 'number', 'products', 'user'])
    t.equal(order.user?.id, app.adminId)
    t.same(
      order.products.map(({ sku }) => sku),
      [product.sku],
    )
    const page = await client.orders.list({ fields: ['id'], include: ['products'], limit: 1 }).page()
    t.same(page.meta.includes, { products: { has_more: false, truncated: [] } })
  })

  t.test('a write with an outdated entity tag fails with PreconditionFailedError', async (t) => {
    const { data, etag } = await client.products.create(createTea()).withResponse()
    const { id } = data
    const ifMatch = etag ?? ''
    await client.products.update(id, { stock: 1 }, { ifMatch })
    await t.rejects(client.products.update(id, { stock: 2 }, { ifMatch }), PreconditionFailedError)
    await t.rejects(client.products.replace(id, createTea(), { ifMatch }), PreconditionFailedError)
    await t.rejects(client.products.delete(id, { ifMatch }), PreconditionFailedError)
    t.equal((await client.products.get(id)).stock, 1)
  })

  t.test('edit writes again if the resource was changed in between', async (t) => {
    const { id } = await client.products.create(createTea({ stock: 10 }))
    const { fetch, summarize } = createRecordedFetch()
    const other = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
    let edits = 0
    const edited = await other.products.edit(id, async ({ stock }) => {
      edits += 1
      if (edits <= 2) await client.products.edit(id, (current) => ({ stock: current.stock + 100 }))
      return { stock: stock + 1 }
    })
    t.equal(edited.stock, 211)
    const path = `/products/${id}`
    const lost = [`GET ${path} 200`, `PATCH ${path} 412`]
    t.same(summarize(), [...lost, ...lost, `GET ${path} 200`, `PATCH ${path} 200`])

    const editors = Array.from({ length: 20 }, () =>
      client.products.edit(id, ({ stock }) => ({ stock: stock + 1 })),
    )
    await Promise.all(editors)
    t.equal((await client.products.get(id)).stock, 231, 'editors that collide all succeed')

    t.intercept(Math, 'random', { value: () => 0 })
    await t.rejects(
      other.products.edit(id, async ({ stock }) => {
        await client.products.update(id, { stock: stock + 100 })
        return { stock: stock + 1 }
      }),
      PreconditionFailedError,
      'gives up in the end',
    )
    const { stock } = await client.products.get(id)
    t.equal((await client.products.edit(id, () => undefined)).stock, stock, 'undefined changes nothing')
  })

  t.test('an error has the class of its status, its code, its fields and its request id', async (t) => {
    const tea = await client.products.create(createTea())
    const member = createClient({ baseUrl, apiKey: (await app.person('member')).key })
    const [status, name] = [422, 'ValidationError']
    for (const [call, type, expected] of [
      [
        () => client.products.create({ sku: 'a b', name: 'Tea', price_amount: 1 }),
        ValidationError,
        { status, name, code: 'VALIDATION_ERROR', fields: [{ field: 'sku', code: 'INVALID_FORMAT' }] },
      ],
      [
        () => client.products.create({ ...createTea(), sku: tea.sku }),
        ConflictError,
        { fields: [{ field: 'sku', code: 'ALREADY_EXISTS' }] },
      ],
      [() => client.products.get(UNKNOWN_ID), NotFoundError, { status: 404, code: 'RESOURCE_NOT_FOUND' }],
      [() => member.products.create(createTea()), PermissionError, { status: 403 }],
      [
        () => createClient({ baseUrl, apiKey: 'wrong' }).users.get('me'),
        AuthenticationError,
        { status: 401 },
      ],
      [() => client.products.list({ limit: 1000 }).page(), ApiError, { name: 'BadRequestError' }],
    ] as const) {
      const error = await Promise.resolve<unknown>(call()).catch((e) => e)
      t.type(error, type)
      t.type(error, ApiError)
      t.match(error, { ...expected, requestId: String })
    }
  })

  t.test('with a cache, the server confirms a response that the client has', async (t) => {
    const { id } = await client.products.create(createTea({ stock: 1 }))
    const { fetch, sent } = createRecordedFetch()
    const cached = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch, cacheSize: 2 })
    const first = await cached.products.get(id)
    first.name = 'changed by the caller'
    const second = await cached.products.get(id).withResponse()
    t.equal(second.data.name, 'Tea')
    t.match(second, { status: 200, etag: /^"1-/, requestId: /./ })
    await client.products.update(id, { stock: 2 })
    t.equal((await cached.products.get(id)).stock, 2)
    t.equal((await cached.products.get(id)).stock, 2)
    t.same(
      sent.map(({ status }) => status),
      [200, 304, 200, 304],
    )
    for (const fields of [['name'], ['sku']] as const) await cached.products.get(id, { fields })
    await cached.products.get(id)
    t.equal(sent.at(-1)?.status, 200, 'the least recently used response was removed')
  })

  t.test('every path of the document is reachable', async (t) => {
    const params = { path: { id: UNKNOWN_ID } }
    const { error, response } = await client.http.GET('/api/v1/products/{id}', { params })
    t.equal(response.status, 404)
    t.equal(error?.error.code, 'RESOURCE_NOT_FOUND')
  })
})
