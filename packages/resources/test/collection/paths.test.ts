/** The paths of a resource are those of its routes: links, documents, batches, exports and tools follow from them. */
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { connectAgent, MCP } from '../../../docs/test/mcp/agent.ts'
import { ADMIN_KEY, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { replaceResource } from '../../../testing/helpers/serve.ts'
import { postsResource, productsResource } from '../../../testing/helpers/shop.ts'
import { defineResource } from '../../src/routes/plugin.ts'
import { restore } from '../../src/routes/restores.ts'
import { aggregate, create, list, read, remove, replace, update } from '../../src/routes/routes.ts'

const { aggregates: _, isRestorable: __, ...declared } = postsResource
const posts = { ...declared, operations: {} }

const moved = replaceResource(
  replaceResource(resources, 'products', () =>
    defineResource(productsResource, async (app, resource) => {
      app.get('/shop/goods', list(resource))
      app.get('/shop/figures', aggregate(resource))
      app.get('/shop/goods/:id', read(resource))
      app.post('/shop/deliveries', create(resource))
      app.put('/shop/goods/:id', replace(resource))
      app.patch('/shop/goods/:id', update(resource))
      app.delete('/stock/:id', remove(resource))
      app.post('/shop/goods/:id/revivals', restore(resource))
    }),
  ),
  'posts',
  () =>
    defineResource(posts, async (app, resource) => {
      app.get('/writers/:user_id/texts', list(resource))
      app.get('/texts/:id/of/:user_id', read(resource))
      app.post('/writers/:user_id/texts', create(resource))
      app.put('/writers/:user_id/texts/:id', replace(resource))
      app.patch('/writers/:user_id/texts/:id', update(resource))
      app.delete('/writers/:user_id/texts/:id', remove(resource))
    }),
)

const api = await testApp(t, MCP, { resources: moved })
const { admin, anybody, person } = api
const product = (sku: string) => ({ sku, name: 'Tea', price_amount: 450 })

t.test('a resource is created, listed, read, changed, deleted and restored', async (t) => {
  const created = await admin.post('/v1/shop/deliveries', product('a'))
  const { id } = created.body.data
  t.equal(created.headers.get('location'), `/v1/shop/goods/${id}`)
  await admin.post('/shop/deliveries', product('b'))
  const { body, headers } = await admin.get('/shop/goods?limit=1')
  t.match(headers.get('link'), `</shop/goods?limit=1&cursor=${body.pagination.cursor}>; rel="next"`)
  t.equal((await admin.get(`/shop/goods/${id}`)).status, 200)
  t.equal((await admin.patch(`/shop/goods/${id}`, { stock: 3 })).body.data.stock, 3)
  t.equal((await admin.get('/shop/figures?measures=count')).body.data[0].count, 2)
  t.equal((await admin.delete(`/stock/${id}`)).status, 204)
  const restored = await admin.post(`/shop/goods/${id}/revivals`, {})
  t.same([restored.status, restored.headers.get('location')], [201, `/shop/goods/${id}`])
  t.equal((await admin.get('/products')).status, 404)
  t.equal((await admin.call('DELETE', `/shop/goods/${id}`)).status, 405)
})

t.test('an Idempotency-Key counts for the path of the route', async (t) => {
  const headers = { 'idempotency-key': 'delivery' }
  const first = await admin.post('/shop/deliveries', product('k'), headers)
  const second = await admin.post('/api/v1/shop/deliveries', product('k'), headers)
  t.same([second.status, second.body.data.id], [201, first.body.data.id])
  t.equal(second.headers.get('idempotency-replayed'), 'true')
})

t.test('the parent is the parameter of the path, wherever it stands', async (t) => {
  const ada = await person('member')
  const text = { title: 'One', body: 'Two', status: 'draft' }
  const created = await ada.client.post('/writers/me/texts', text)
  const { id } = created.body.data
  t.same(
    [created.status, created.headers.get('location'), created.body.data.user_id],
    [201, `/texts/${id}/of/${ada.id}`, ada.id],
  )
  t.equal((await ada.client.get(`/texts/${id}/of/me`)).status, 200)
  t.equal((await ada.client.get(`/texts/${id}/of/${UNKNOWN_ID}`)).status, 404)
  t.equal((await ada.client.get('/writers/me/texts')).body.data.length, 1)
  t.equal((await admin.post(`/writers/${UNKNOWN_ID}/texts`, text)).status, 404)
})

t.test('exports and imports have the paths of the list and of the creation', async (t) => {
  const exported = await admin.get('/shop/goods', { accept: 'text/csv' })
  t.match(exported.headers.get('content-type'), /^text\/csv/)
  t.match(exported.text, /^id,/)
  const ada = await person('member')
  t.match((await ada.client.get('/writers/me/texts', { accept: 'text/csv' })).text, /^id,/)
  t.equal((await admin.get('/shop/figures?measures=count', { accept: 'text/csv' })).status, 406)
  const rows = '{"sku":"row","name":"Tea","price_amount":1}\n'
  const imported = await admin.call('POST', '/shop/deliveries?on_conflict=sku', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: rows,
  })
  t.same(imported.body.data, { created: 1, updated: 0, unchanged: 0 })
})

t.test('batches, documents and tools have the same paths', async (t) => {
  const operations = [
    { method: 'POST', path: '/shop/deliveries', body: product('batch') },
    { method: 'PATCH', path: '/shop/goods/$0', body: { stock: 7 } },
    { method: 'DELETE', path: '/stock/$0' },
  ]
  const { body } = await admin.post('/batches', { operations })
  t.match(
    body.data.results.map(({ location, status }: Json) => [status, location]),
    [
      [201, /^\/shop\/goods\/[-\w]{36}$/],
      [200, null],
      [204, null],
    ],
  )

  const { paths } = (await anybody.get('/openapi/v1.json')).body
  t.equal(paths['/api/v1/shop/deliveries'].post.operationId, 'createProduct')
  t.equal(paths['/api/v1/texts/{id}/of/{user_id}'].get.operationId, 'getPost')
  t.notOk(paths['/api/v1/products'])

  const agent = await connectAgent(t, api, { 'x-api-key': ADMIN_KEY })
  const result = await agent.client.callTool({ name: 'products_list', arguments: { sku: 'row' } })
  t.match(result.structuredContent, { data: [{ sku: 'row' }] })
})
