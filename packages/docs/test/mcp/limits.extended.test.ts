/** Connecting and listing count as one request each, a call as its operation; beyond a limit, a call is an error. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { connectAgent, MCP, request, sendMessage } from './agent.ts'
import { createHeldDatabase } from './held-database.ts'

const held = await createHeldDatabase(t)
const settings = { ...MCP, RATE_LIMIT: '20', RATE_LIMIT_BURST: '1000', USER_CONCURRENCY: '1' }
const app = await testApp(t, settings, { database: held.database })

/** Connects an agent with the key of a new admin. */
async function start() {
  const person = await app.person('admin')
  const headers = { 'x-api-key': person.key }
  return { ...person, headers, agent: await connectAgent(t, app, headers) }
}

t.test('what counts how much, and what is said beyond the limit', async (t) => {
  const { agent, client, headers } = await start()
  const getRemaining = async () =>
    Number((await client.get('/products')).headers.get('x-ratelimit-remaining'))
  t.equal(await getRemaining(), 18, 'connecting and the request itself')
  for (const [remaining, what, call] of [
    [16, 'a list of tools', () => agent.listNames()],
    [14, 'a list', () => agent.callTool('products_list')],
    [8, 'a search counts as five', () => agent.callTool('products_list', { search: 'tea' })],
    [6, 'a call that lacks an argument', () => agent.callTool('products_get', {})],
  ] as const) {
    await call()
    t.equal(await getRemaining(), remaining, what)
  }
  const called = await request(app, headers, 'tools/call', { name: 'products_list' })
  t.equal(called.headers.get('x-ratelimit-remaining'), '5')
  t.equal(called.headers.get('x-ratelimit-limit'), '20')

  for (let i = 0; i < 5; i++) t.equal((await agent.callTool('products_list')).isError, false)
  const refused = await agent.callTool('products_list')
  t.match(refused, { isError: true, body: { error: { code: 'RATE_LIMIT_EXCEEDED', request_id: String } } })
  t.match(refused.texts[1], /^Call the tool again after \d+ seconds\.$/)
  t.equal((await agent.callTool('nothing')).body.error.code, 'RATE_LIMIT_EXCEEDED')
  const list = await request(app, headers, 'tools/list')
  t.equal(list.status, 429)
  t.ok(Number(list.headers.get('retry-after')) >= 1)
  const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
  t.equal((await sendMessage(app, headers, initialized)).status, 202, 'a connection is not cut in two')
  t.equal((await client.get('/products')).status, 429)
  const long = { name: 'products_create', arguments: { name: 'x'.repeat(20_000) } }
  t.equal((await request(app, headers, 'tools/call', long)).status, 429, 'a long body is not read')
})

t.test('the own limit of a key holds', async (t) => {
  const { bearer } = await app.person('admin')
  const key = { name: 'agent', scopes: ['products:read'], rate_limit: 3 }
  const { body } = await bearer.post('/api-keys', key)
  const agent = await connectAgent(t, app, { 'x-api-key': body.data.key })
  t.strictSame(await agent.listNames(), ['products_aggregate', 'products_get', 'products_list'])
  t.equal((await agent.callTool('products_list')).isError, false)
  t.equal((await agent.callTool('products_list')).body.error.code, 'RATE_LIMIT_EXCEEDED')
})

t.test('a call takes the slots of its operation, and no second ones', async (t) => {
  const { agent } = await start()
  for (let i = 0; i < 2; i++)
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

for (const [name, sent] of [
  ['products_list', {}],
  ['products_create', { sku: 'left', name: 'Left', price_amount: 1 }],
] as const)
  t.test(`a client that leaves during ${name} gives back what it took, and a write ends`, async (t) => {
    const { agent, client, headers } = await start()
    held.hold()
    const leaving = new AbortController()
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: sent } }
    const call = sendMessage(app, headers, message, leaving.signal)
    await waitUntil(() => held.waiting.length > 0)
    leaving.abort()
    await t.rejects(call, { name: 'AbortError' })
    await waitUntil(() => app.app.admissionQueue.used === 0)
    held.release()
    // The operation holds the user's only slot to its end.
    await waitUntil(async () => (await client.get('/users/me')).status === 200)
    const { body: list } = await agent.callTool('products_list', { sku: ['left'] })
    t.equal(list.data.length, name === 'products_create' ? 1 : 0)
    t.equal(app.app.admissionQueue.used, 0)
  })

t.test('many calls at once do not wait for each other in admission', async (t) => {
  const app = await testApp(t, { ...MCP, USER_CONCURRENCY: '1000', POOL_SIZE: '1' })
  const { key } = await app.person('admin')
  const replies = await Promise.all(
    Array.from({ length: 150 }, (_, price_amount) => {
      const sent = { sku: `many-${price_amount}`, name: 'Many', price_amount }
      return request(app, { 'x-api-key': key }, 'tools/call', { name: 'products_create', arguments: sent })
    }),
  )
  for (const { body } of replies) t.ok(body.result && !body.result.isError)
  t.equal(app.app.admissionQueue.used, 0)
})
