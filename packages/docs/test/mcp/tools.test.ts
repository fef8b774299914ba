/** Agents use the operations of collections as tools, with the client of the SDK over HTTP. */
import t from 'tap'
import { ADMIN_KEY, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { connectAgent, MCP } from './agent.ts'

const app = await testApp(t, MCP)
const admin = await connectAgent(t, app, { 'x-api-key': ADMIN_KEY })
const { tools } = await admin.client.listTools()
const VERBS = ['list', 'get', 'create', 'update', 'replace', 'delete']
const product = (sku: string) => ({ sku, name: 'Tea', price_amount: 450 })

t.test('each operation of a collection is a tool, and so is the reading of events', async (t) => {
  const names = tools.map(({ name }) => name)
  for (const collection of ['users', 'user_profiles', 'posts', 'products', 'orders'])
    for (const verb of VERBS) t.ok(names.includes(`${collection}_${verb}`), `${collection}_${verb}`)
  t.strictSame(
    names.filter((name) => name.startsWith('events')),
    ['events_get', 'events_list'],
  )
  t.strictSame(
    names.filter((name) => /session|api_key|token|webhook|deliver|replay|batch|secret/.test(name)),
    [],
  )
  t.equal(new Set(names).size, names.length)
})

t.test('each tool has the texts, arguments and result of its operation, hints and an example', async (t) => {
  for (const { name, annotations, inputSchema } of tools) {
    const verb = name.split('_').at(-1)
    const hints = {
      readOnlyHint: verb === 'list' || verb === 'get' || verb === 'aggregate',
      destructiveHint: verb === 'delete' || verb === 'replace',
      idempotentHint: verb !== 'create',
    }
    t.match(annotations, hints, name)
    const { examples, required = [], properties = {} } = inputSchema as Json
    t.hasProps(examples[0], required, name)
    for (const [argument, schema] of Object.entries<Json>(properties))
      t.ok(schema.description ?? schema.oneOf, `${name}: ${argument}`)
  }
  // There are no references, and JSON Schema does not define the formats of OpenAPI.
  t.notMatch(JSON.stringify(tools), /\$ref|"x-|"int64"/)

  const { body: document } = await app.anybody.get('/openapi/v1.json')
  const operation = document.paths['/api/v1/products'].post
  const create = tools.find(({ name }) => name === 'products_create')
  t.equal(create?.title, operation.summary)
  t.equal(create?.description, operation.description)
  const { ProductCreate, Product } = document.components.schemas
  t.strictSame(create?.inputSchema.required, ProductCreate.required)
  const { idempotency_key: key, dry_run: trial, ...members } = (create?.inputSchema.properties ?? {}) as Json
  t.ok(key)
  t.equal(trial.type, 'boolean')
  t.strictSame(Object.keys(members), Object.keys(ProductCreate.properties))
  const { data } = (create?.outputSchema?.properties ?? {}) as Json
  t.strictSame(data.required.toSorted(), Product.required.toSorted())
})

t.test('a resource is created, read, changed, replaced and deleted', async (t) => {
  const created = await admin.callTool('products_create', product('mcp-1'))
  const { id } = created.body.data
  t.match(created.body, { data: { sku: 'mcp-1', stock: 0 }, meta: { timestamp: String } })
  t.strictSame(JSON.parse(created.texts[0] ?? ''), created.body)
  t.match((await admin.callTool('products_get', { id })).body.data, { sku: 'mcp-1' })
  t.match((await admin.callTool('products_update', { id, stock: 7 })).body.data, { stock: 7, name: 'Tea' })
  const replaced = await admin.callTool('products_replace', { id, ...product('mcp-1'), name: 'Green tea' })
  t.match(replaced.body.data, { name: 'Green tea', stock: 0 })
  // What was read can be sent to the replacement.
  const again = await admin.callTool('products_replace', { ...replaced.body.data, stock: 3 })
  t.match(again.body?.data, { id, stock: 3 }, again.texts[0] ?? '')
  const deleted = await admin.callTool('products_delete', { id })
  t.strictSame(deleted, { isError: false, texts: ['Done'], body: undefined })
  const missing = await admin.callTool('products_get', { id })
  t.match(missing, { isError: true, body: { error: { code: 'RESOURCE_NOT_FOUND', request_id: String } } })
})

t.test('each tool that writes has a dry run', async (t) => {
  for (const { name, inputSchema, annotations } of tools)
    t.equal('dry_run' in (inputSchema.properties ?? {}), !annotations?.readOnlyHint, name)
  const tried = await admin.callTool('products_create', { ...product('mcp-trial'), dry_run: true })
  t.match(tried.body, { data: { sku: 'mcp-trial' }, meta: { dry_run: true } })
  const { body } = await admin.callTool('products_create', { ...product('mcp-trial'), dry_run: false })
  const { id } = body.data
  t.notOk(body.meta.dry_run)
  const changed = await admin.callTool('products_update', { id, stock: 7, dry_run: true })
  t.match(changed.body, { data: { stock: 7 }, meta: { dry_run: true } })
  const deleted = await admin.callTool('products_delete', { id, dry_run: true })
  t.match(deleted.body, { data: null, meta: { dry_run: true } })
  t.match((await admin.callTool('products_get', { id })).body.data, { stock: 0 })
})

t.test('a nested resource has the id of its parent as an argument', async (t) => {
  const { body } = await admin.callTool('posts_create', { user_id: 'me', title: 'Hello', body: 'World' })
  t.equal(body.data.user_id, app.adminId)
  const { id } = body.data
  t.match((await admin.callTool('posts_list', { user_id: app.adminId })).body.data, [{ id }])
  const replaced = await admin.callTool('posts_replace', { ...body.data, title: 'Bye' })
  t.equal(replaced.body?.data.title, 'Bye', replaced.texts[0] ?? '')
  const others = await admin.callTool('posts_get', { user_id: UNKNOWN_ID, id })
  t.match(others.body, { error: { code: 'RESOURCE_NOT_FOUND' } })
})

t.test('lists have the parameters of their operation', async (t) => {
  for (let i = 0; i < 25; i++) await admin.callTool('products_create', product(`page-${i}`))
  const first = await admin.callTool('products_list', { sku_prefix: 'page-', sort: ['sku'] })
  t.equal(first.body.data.length, 20)
  t.equal(first.body.data[0].sku, 'page-0')
  const { cursor } = first.body.pagination
  const next = await admin.callTool('products_list', { sku_prefix: 'page-', sort: ['sku'], cursor })
  t.match(next.body, { pagination: { has_more: false } })
  t.equal(next.body.data.length, 5)
  const narrow = await admin.callTool('products_list', {
    sku: ['page-1', 'page-2'],
    fields: ['sku'],
    page: 1,
  })
  t.match(narrow.body.pagination, { total: 2, page: 1 })
  t.strictSame(Object.keys(narrow.body.data[0]), ['id', 'sku'])
  const { body } = await admin.callTool('users_list', { include: ['orders', 'profile'], limit: 1 })
  t.match(body, { data: [{ profile: null }], meta: { includes: { orders: { has_more: false } } } })
  t.same(body.data[0].orders, [])
})

t.test('an id is one segment of the path, whatever text it is', async (t) => {
  for (const id of ['', '.', '..', '%2e%2e', '../users', 'a/b', 'me?x=1', '#', 'x'.repeat(100_000)]) {
    const { body } = await admin.callTool('users_get', { id })
    t.equal(body.error?.code, 'RESOURCE_NOT_FOUND', String(id).slice(0, 20))
    const nested = await admin.callTool('posts_list', { user_id: id })
    t.equal(nested.body.error?.code, 'RESOURCE_NOT_FOUND')
    t.equal((await admin.callTool('products_delete', { id })).body.error?.code, 'RESOURCE_NOT_FOUND')
  }
})

t.test('a call with an Idempotency-Key is done once, one with an ETag only if it is current', async (t) => {
  const sent = { ...product('mcp-3'), idempotency_key: 'agent-1' }
  const first = await admin.callTool('products_create', sent)
  const { id } = first.body.data
  t.equal((await admin.callTool('products_create', sent)).body.data.id, id)
  const [, tag = ''] = first.texts
  t.match(tag, /^ETag: "1-/)
  const change = { id, if_match: tag.replace('ETag: ', '') }
  t.equal((await admin.callTool('products_update', { ...change, stock: 1 })).isError, false)
  const stale = await admin.callTool('products_update', { ...change, stock: 2 })
  t.equal(stale.body.error.code, 'PRECONDITION_FAILED')
})

t.test('a change is an event, with the request of the call', async (t) => {
  const { body } = await admin.callTool('products_create', product('mcp-4'))
  const list = async () => (await admin.callTool('events_list', { resource_id: [body.data.id] })).body.data
  await waitUntil(async () => (await list()).length > 0)
  const [event] = await list()
  t.match([event], [{ type: 'products.created', actor_id: app.adminId, credential: 'bootstrap_key' }])
  t.equal((await admin.callTool('events_get', { id: event.id })).body.data.type, 'products.created')
})

t.test('a result of more than 1 MiB is an error that says how to get less', async (t) => {
  for (let i = 0; i < 12; i++)
    await admin.callTool('posts_create', { user_id: 'me', title: `long ${i}`, body: 'x'.repeat(100_000) })
  const refused = await admin.callTool('posts_list', { user_id: 'me' })
  t.match(refused, {
    isError: true,
    body: { error: { details: [{ field: 'limit', code: 'OUT_OF_RANGE' }] } },
  })
  t.equal((await admin.callTool('posts_list', { user_id: 'me', limit: 5 })).body.data.length, 5)
  t.ok((await admin.callTool('posts_list', { user_id: 'me', fields: ['title'] })).body.data.length > 11)
})
