/** Connecting and listing count as one request each, a call as its operation; beyond a limit, a call is an error. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { waitUntil } from '../helpers/time.ts'
import { connectAgent, MCP, request, sendMessage } from './agent.ts'
import { createHeldDatabase } from './held-database.ts'

const LIMITS = { ...MCP, RATE_LIMIT: '20', RATE_LIMIT_BURST: '1000' }
const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' }

t.test('what counts how much', async (t) => {
  const app = await testApp(t, LIMITS)
  const { client, key } = await app.person('admin')
  const getRemaining = async () =>
    Number((await client.get('/products')).headers.get('x-ratelimit-remaining'))
  const agent = await connectAgent(t, app, { 'x-api-key': key })
  t.equal(await getRemaining(), 18, 'connecting and the request itself')
  await agent.listNames()
  t.equal(await getRemaining(), 16)
  await agent.callTool('products_list')
  t.equal(await getRemaining(), 14)
  await agent.callTool('products_list', { search: 'tea' })
  t.equal(await getRemaining(), 8, 'a search counts as five')
  await agent.callTool('products_get', {})
  t.equal(await getRemaining(), 6, 'a call that lacks an argument')
  const { headers } = await request(app, { 'x-api-key': key }, 'tools/call', { name: 'products_list' })
  t.equal(headers.get('x-ratelimit-remaining'), '5')
  t.equal(headers.get('x-ratelimit-limit'), '20')
})

t.test('beyond the limit, a call says when to try again, and everything else is 429', async (t) => {
  const app = await testApp(t, LIMITS)
  const { client, key } = await app.person('admin')
  const headers = { 'x-api-key': key }
  const agent = await connectAgent(t, app, headers)
  for (let i = 0; i < 19; i++) t.equal((await agent.callTool('products_list')).isError, false)
  const refused = await agent.callTool('products_list')
  t.match(refused, { isError: true, body: { error: { code: 'RATE_LIMIT_EXCEEDED', request_id: String } } })
  t.match(refused.texts[1], /^Call the tool again after \d+ seconds\.$/)
  const unknown = await agent.callTool('nothing')
  t.equal(unknown.body.error.code, 'RATE_LIMIT_EXCEEDED')
  const list = await request(app, headers, 'tools/list')
  t.equal(list.status, 429)
  t.ok(Number(list.headers.get('retry-after')) >= 1)
  t.equal((await sendMessage(app, headers, INITIALIZED)).status, 202, 'a connection is not cut in two')
  t.equal((await client.get('/products')).status, 429)
  const long = { name: 'products_create', arguments: { name: 'x'.repeat(20_000) } }
  t.equal((await request(app, headers, 'tools/call', long)).status, 429, 'a long body is not read')
})

t.test('the own limit of a key holds', async (t) => {
  const app = await testApp(t, { ...MCP, RATE_LIMIT_BURST: '1000' })
  const person = await app.person('admin')
  const { body } = await person.bearer.post('/api-keys', {
    name: 'agent',
    scopes: ['products:read'],
    rate_limit: 3,
  })
  const agent = await connectAgent(t, app, { 'x-api-key': body.data.key })
  t.strictSame(await agent.listNames(), ['products_list', 'products_get'])
  t.equal((await agent.callTool('products_list')).isError, false)
  t.equal((await agent.callTool('products_list')).body.error.code, 'RATE_LIMIT_EXCEEDED')
})

t.test('a call takes the slots of its operation, and no second ones', async (t) => {
  const held = await createHeldDatabase(t)
  const app = await testApp(t, { ...MCP, USER_CONCURRENCY: '1' }, { database: held.database })
  const { key } = await app.person('admin')
  const agent = await connectAgent(t, app, { 'x-api-key': key })
  for (let i = 0; i < 3; i++)
    t.equal((await agent.callTool('products_list', { search: 'tea' })).isError, false)
  t.equal((await agent.callTool('products_create', { sku: 'a', name: 'A', price_amount: 1 })).isError, false)
  held.hold()
  const first = agent.callTool('products_list')
  await waitUntil(() => held.waiting.length > 0)
  const second = await agent.callTool('products_list')
  t.match(second, { isError: true, body: { error: { code: 'RATE_LIMIT_EXCEEDED' } } })
  t.match(second.texts[1], 'after 1 seconds')
  held.release()
  t.equal((await first).isError, false)
  t.equal((await agent.callTool('products_list')).isError, false, 'all slots are given back')
  t.equal(app.app.admissionQueue.used, 0)
})

t.test('many calls at once do not wait for each other in admission', async (t) => {
  const app = await testApp(t, { ...MCP, USER_CONCURRENCY: '1000', POOL_SIZE: '1' })
  const { key } = await app.person('admin')
  const headers = { 'x-api-key': key }
  const replies = await Promise.all(
    Array.from({ length: 300 }, (_, i) =>
      request(app, headers, 'tools/call', {
        name: 'products_create',
        arguments: { sku: `many-${i}`, name: 'Many', price_amount: i },
      }),
    ),
  )
  t.equal(replies.filter(({ body }) => body.result && !body.result.isError).length, 300)
  t.equal(app.app.admissionQueue.used, 0)
})
