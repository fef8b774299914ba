/** `POST /mcp` speaks revision 2026-07-28 of the protocol beside 2025-11-25 and earlier ones. */
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { connectAgent, MCP, sendMessage } from './agent.ts'

const REVISION = '2026-07-28'
const META = 'io.modelcontextprotocol'
const app = await testApp(t, { ...MCP, CORS_ORIGINS: 'https://agents.example' })

const envelope = {
  [`${META}/protocolVersion`]: REVISION,
  [`${META}/clientInfo`]: { name: 'test', version: '1' },
  [`${META}/clientCapabilities`]: {},
}
const getHeaders = (method: string, name?: string): Record<string, string> => ({
  'mcp-protocol-version': REVISION,
  'mcp-method': method,
  ...(name !== undefined && { 'mcp-name': name }),
})

interface Sent {
  headers?: Record<string, string>
  meta?: unknown
  id?: number
  credential?: Record<string, string>
}

async function send(method: string, params: Record<string, unknown> = {}, sent: Sent = {}) {
  const { headers = getHeaders(method), id = 7, credential = { 'x-api-key': ADMIN_KEY } } = sent
  const meta = 'meta' in sent ? sent.meta : envelope
  const body = { jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } }
  const reply = await sendMessage(app, { ...credential, ...headers }, body)
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.startsWith('application/json')
  const parsed: Json = isJson ? JSON.parse(text) : text
  return { status: reply.status, headers: reply.headers, body: parsed }
}
const call = (name: string, sent: Record<string, unknown> = {}, options: Sent = {}) =>
  send('tools/call', { name, arguments: sent }, { headers: getHeaders('tools/call', name), ...options })

for (const [mode, revision] of [
  ['auto', REVISION],
  ['legacy', '2025-11-25'],
  [{ pin: REVISION }, REVISION],
] as const)
  t.test(`the official client connects with ${JSON.stringify(mode)}`, async (t) => {
    const agent = await connectAgent(t, app, { 'x-api-key': ADMIN_KEY }, mode)
    t.equal(agent.client.getNegotiatedProtocolVersion(), revision)
    const names = await agent.listNames()
    t.strictSame(names, names.toSorted(), 'in the order of their names')
    t.ok(names.includes('products_create'))
    const sku = `revision-${typeof mode === 'string' ? mode : 'pinned'}`
    const made = await agent.callTool('products_create', { sku, name: 'Tea', price_amount: 450 })
    t.equal(made.body.data.sku, sku)
    const missing = await agent.callTool('products_get', { id: 'x' })
    t.match(missing, { isError: true, body: { error: { code: 'RESOURCE_NOT_FOUND' } } })
    await t.rejects(agent.callTool('nothing'), { code: -32602, message: /Unknown tool: nothing/ })
  })

t.test('results are complete, name the server, and say for how long they may be kept', async (t) => {
  const discovered = await send('server/discover')
  t.match(discovered.body.result, {
    supportedVersions: [REVISION],
    instructions: /pagination\.cursor/,
    ...{ resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' },
  })
  t.strictSame(discovered.body.result.capabilities, { tools: {} })
  const listed = await send('tools/list')
  t.match(listed.body.result, { resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' })
  const called = await call('products_list')
  t.equal(called.body.result.resultType, 'complete')
  const refused = await call('products_list', { limit: 0 })
  t.match(refused.body.result, { isError: true, resultType: 'complete' })
  for (const { status, headers, body } of [discovered, listed, called, refused]) {
    t.equal(status, 200)
    t.equal(body.id, 7)
    t.match(headers.get('content-type'), /^application\/json/)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(body.result._meta[`${META}/serverInfo`].name, 'resource-api')
  }
  // Earlier revisions have none of these.
  const { body } = await send('tools/list', {}, { headers: {}, meta: undefined })
  t.strictSame(Object.keys(body.result), ['tools'])
  t.strictSame(body.result.tools, listed.body.result.tools)
})

t.test('the headers have to be there and to equal the body', async (t) => {
  const version = { 'mcp-protocol-version': REVISION }
  const mismatches: [what: string, reply: ReturnType<typeof send>][] = [
    ['no header', send('tools/list', {}, { headers: {} })],
    ['no method', send('tools/list', {}, { headers: version })],
    ['another method', send('tools/list', {}, { headers: getHeaders('tools/call') })],
    ['no name', call('products_list', {}, { headers: getHeaders('tools/call') })],
    ['another name', call('products_list', {}, { headers: getHeaders('tools/call', 'products_get') })],
    [
      'another revision',
      send(
        'tools/list',
        {},
        { headers: { ...getHeaders('tools/list'), 'mcp-protocol-version': '2025-11-25' } },
      ),
    ],
  ]
  for (const [what, reply] of mismatches)
    t.match(await reply, { status: 400, body: { id: 7, error: { code: -32020 } } }, what)
  const encoded = `=?base64?${Buffer.from('products_list').toString('base64')}?=`
  const named = await call('products_list', {}, { headers: getHeaders('tools/call', encoded) })
  t.match(named, { status: 200, body: { result: { isError: undefined } } })
})

t.test('a wrong envelope, an unknown revision and unknown methods are errors of their own', async (t) => {
  const { [`${META}/clientCapabilities`]: _, ...incomplete } = envelope
  for (const meta of [undefined, null, 5, [], 'x', {}, incomplete]) {
    const reply = await send('tools/list', {}, { meta })
    t.match(reply, { status: 400, body: { error: { code: -32602 } } }, JSON.stringify(meta))
  }
  const later = await send(
    'tools/list',
    {},
    {
      headers: { ...getHeaders('tools/list'), 'mcp-protocol-version': '2027-01-01' },
      meta: { ...envelope, [`${META}/protocolVersion`]: '2027-01-01' },
    },
  )
  t.match(later, { status: 400, body: { error: { code: -32022 } } })
  t.strictSame(later.body.error.data.supported, [REVISION])
  for (const method of ['initialize', 'ping', 'resources/list', 'prompts/get', 'nothing', '__proto__'])
    t.match(await send(method), { status: 404, body: { id: 7, error: { code: -32601 } } }, method)
  const old = { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'x', version: '1' } }
  const { body } = await send('initialize', old, { headers: {}, meta: undefined })
  t.equal(body.result.protocolVersion, '2025-11-25')
})

t.test('wrong parameters of a method are named', async (t) => {
  const [cursor, name, sent] = await Promise.all([
    send('tools/list', { cursor: 5 }),
    send('tools/call', { name: 5 }, { headers: getHeaders('tools/call', '5') }),
    send(
      'tools/call',
      { name: 'products_list', arguments: [] },
      { headers: getHeaders('tools/call', 'products_list') },
    ),
  ])
  for (const [reply, member] of [
    [cursor, 'params.cursor'],
    [name, 'params.name'],
    [sent, 'params.arguments'],
  ] as const) {
    t.equal(reply.body.error.code, -32602)
    t.match(reply.body.error.message, member)
  }
  t.equal((await call('nothing')).body.error.code, -32602)
})

t.test('subscriptions end at once, and notifications are accepted', async (t) => {
  const { status, headers, body } = await send('subscriptions/listen', {
    notifications: { toolsListChanged: true },
  })
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'text/event-stream')
  t.match(body, /"id":7,"result":\{"resultType":"complete"/)
  const cancelled = {
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { _meta: envelope, requestId: 7 },
  }
  const headersOfIt = { 'x-api-key': ADMIN_KEY, ...getHeaders('notifications/cancelled') }
  t.equal((await sendMessage(app, headersOfIt, cancelled)).status, 202)
})

t.test('without a valid credential it is 401, with a challenge', async (t) => {
  for (const [credential, error] of [
    [{}, ''],
    [{ authorization: 'Bearer wrong' }, ', error="invalid_token"'],
  ] as const) {
    const reply = await send('server/discover', {}, { credential })
    t.equal(reply.status, 401)
    t.equal(reply.headers.get('www-authenticate'), `Bearer realm="resource-api"${error}`)
  }
})

t.test('a page of a listed origin may send the headers of the protocol', async (t) => {
  const requested = 'mcp-protocol-version, mcp-method, mcp-name'
  const headers = {
    origin: 'https://agents.example',
    'access-control-request-method': 'POST',
    'access-control-request-headers': requested,
  }
  const preflight = await app.anybody.call('OPTIONS', '/mcp', { headers })
  const allowed = preflight.headers.get('access-control-allow-headers')?.toLowerCase().split(', ') ?? []
  for (const name of requested.split(', ')) t.ok(allowed.includes(name), name)
})
