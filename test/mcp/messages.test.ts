/** What `POST /mcp` answers to messages, right and wrong, and what it refuses by HTTP. */
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../helpers/app.ts'
import { MCP, request, sendMessage } from './agent.ts'

const ORIGIN = 'https://agents.example'
const app = await testApp(t, { ...MCP, CORS_ORIGINS: ORIGIN })
const headers = { 'x-api-key': ADMIN_KEY }
const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

async function send(body: unknown, others: Record<string, string> = {}) {
  const reply = await sendMessage(app, { ...headers, ...others }, body)
  const text = await reply.text()
  const parsed: Json = text === '' ? undefined : JSON.parse(text)
  return { status: reply.status, headers: reply.headers, body: parsed }
}

const initialize = (protocolVersion: string) => ({
  jsonrpc: '2.0',
  id: 'a',
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'x', version: '1' } },
})

t.test('a connection is made with each revision of the protocol, and without a session', async (t) => {
  for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']) {
    const reply = await send(initialize(version))
    t.match(reply.body, { id: 'a', result: { protocolVersion: version, capabilities: { tools: {} } } })
    t.equal(reply.headers.get('mcp-session-id'), null)
    t.match(reply.headers.get('content-type'), 'application/json')
    t.equal(reply.headers.get('cache-control'), 'no-store')
  }
  const unknown = await send(initialize('1999-01-01'))
  t.equal(unknown.body.result.protocolVersion, '2025-11-25')
  t.equal((await send({ jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202)
  t.strictSame((await send({ jsonrpc: '2.0', id: 5, method: 'ping' })).body, {
    jsonrpc: '2.0',
    id: 5,
    result: {},
  })
})

t.test('the header of the protocol version is read', async (t) => {
  t.equal((await send(list, { 'mcp-protocol-version': '2025-06-18' })).status, 200)
  const wrong = await send(list, { 'mcp-protocol-version': '1999-01-01' })
  t.match(wrong, { status: 400, body: { error: { code: -32000 }, id: null } })
})

t.test('the response is JSON, whatever the client accepts', async (t) => {
  for (const accept of [
    '*/*',
    'application/json',
    'text/event-stream',
    'application/json, text/event-stream',
  ])
    t.equal((await send(list, { accept })).status, 200, accept)
})

t.test('unknown methods and wrong parameters are errors of JSON-RPC', async (t) => {
  for (const method of [
    'resources/list',
    'prompts/get',
    'nothing',
    '__proto__',
    'constructor',
    'logging/setLevel',
  ])
    t.match((await send({ jsonrpc: '2.0', id: 1, method })).body, { id: 1, error: { code: -32601 } }, method)
  for (const params of [
    undefined,
    {},
    { name: 5 },
    { name: 'products_list', arguments: [] },
    { name: 'products_list', arguments: 'x' },
  ]) {
    const { body } = await send({ jsonrpc: '2.0', id: 1, method: 'tools/call', ...(params && { params }) })
    t.equal(body.error?.code, -32602, JSON.stringify(params))
  }
  const client = { name: 'x', version: '1' }
  for (const [method, params] of [
    ['initialize', undefined],
    ['initialize', { protocolVersion: 5, capabilities: {}, clientInfo: client }],
    ['initialize', { protocolVersion: '2025-11-25', capabilities: null, clientInfo: client }],
    ['initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: [] }],
    ['tools/list', { cursor: 5 }],
    ['tools/call', { name: null }],
    ['tools/call', { name: ['products_list'] }],
    ['tools/call', { name: 'products_list', arguments: false }],
  ] as const) {
    const { body } = await request(app, headers, method, params)
    t.equal(body.error?.code, -32602, `${method} ${JSON.stringify(params)}`)
    t.match(body.error?.message, 'params')
  }
  const capabilities = {
    experimental: Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x${i}`, i])),
  }
  const many = await request(app, headers, 'initialize', { capabilities })
  t.ok(JSON.stringify(many.body).length < 700, 'not all that is wrong is repeated')
  const long = await request(app, headers, 'tools/call', { name: 'x'.repeat(900_000) })
  t.ok(JSON.stringify(long.body).length < 300, 'a long name is not repeated')
})

t.test('null parameters count as absent, and so does what makes a call a task', async (t) => {
  const { body: listed } = await send(list)
  for (const params of [null, { cursor: null }, { _meta: null }])
    t.strictSame((await send({ ...list, params })).body, listed, JSON.stringify(params))
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call' }
  const { body } = await send({ ...call, params: { name: 'users_list', arguments: null, _meta: null } })
  t.equal(body.result?.structuredContent.data.length, 1)
  const tasks = [{ ttl: 60_000 }, {}, 5, null]
  for (const [i, task] of tasks.entries()) {
    const sent = { sku: `task-${i}`, name: 'N', price_amount: 1 }
    const params = { name: 'products_create', arguments: sent, task }
    t.match((await send({ ...call, params })).body.result?.structuredContent?.data, sent)
  }
})

t.test('what is no message is 400', async (t) => {
  const invalid = [
    ...['', '{', 'null', '5', '"x"', '[]', JSON.stringify([list]), JSON.stringify([list, list])],
    ...[{}, { jsonrpc: '1.0', id: 1, method: 'ping' }, { id: 1, method: 'ping' }],
    ...[
      { jsonrpc: '2.0', id: null, method: 'ping' },
      { jsonrpc: '2.0', id: {}, method: 'ping' },
    ],
    ...[
      { jsonrpc: '2.0', id: 1 },
      { jsonrpc: '2.0', id: 1, method: 5 },
    ],
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"products_list","arguments":{"__proto__":{"limit":1}}}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"users_get","arguments":{"id":"me","id":"x"}}}',
    `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(30)}1${'}'.repeat(30)}}`,
  ]
  for (const body of invalid) {
    const { status, body: answer } = await send(body)
    t.equal(status, 400, JSON.stringify(body))
    t.ok(answer.error.code)
  }
})

t.test('notifications and responses are accepted, and do nothing', async (t) => {
  for (const message of [
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
    { jsonrpc: '2.0', method: 'notifications/nothing' },
    {
      jsonrpc: '2.0',
      method: 'tools/call',
      params: { name: 'products_create', arguments: { sku: 'n', name: 'N', price_amount: 1 } },
    },
    { jsonrpc: '2.0', id: 1, result: {} },
    { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } },
  ])
    t.equal((await send(message)).status, 202, JSON.stringify(message))
  t.strictSame((await app.admin.get('/products?sku=n')).body.data, [])
})

t.test('the limits of bodies and media types are those of every request', async (t) => {
  const call = (description: string) => ({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'products_create', arguments: { sku: 'big', name: 'Big', price_amount: 1, description } },
  })
  const large = await send(call('x'.repeat(1_000_000)))
  t.match(JSON.parse(large.body.result.content[0].text), {
    error: { details: [{ field: 'description', code: 'TOO_LONG' }] },
  })
  t.equal((await send(call('x'.repeat(1_048_576)))).status, 413)
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`name${i}`, i]))
  const { body } = await request(app, headers, 'tools/call', { name: 'products_create', arguments: many })
  t.equal(JSON.parse(body.result.content[0].text).error.details.length, 50)
  const query = await request(app, headers, 'tools/call', {
    name: 'products_list',
    arguments: { search: 'x'.repeat(100_000) },
  })
  t.match(query.body.result.content[0].text, 'URI_TOO_LONG')
  t.equal((await send('x', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await send(list, { 'content-encoding': 'gzip' })).status, 415)
})

t.test('other methods are 405', async (t) => {
  for (const method of ['GET', 'DELETE', 'PUT', 'PATCH', 'HEAD']) {
    const reply = await app.admin.call(method, '/mcp')
    t.equal(reply.status, 405, method)
    t.equal(reply.headers.get('allow'), 'OPTIONS, POST')
  }
  t.equal((await app.admin.post('/v1/mcp', list)).status, 404)
})

t.test('a foreign Origin is 403, with and without credentials', async (t) => {
  for (const origin of [
    'https://evil.example',
    'null',
    app.base.replace('127.0.0.1', 'localhost.evil.example'),
  ]) {
    const reply = await send(list, { origin })
    t.match(reply, { status: 403, body: { error: { code: 'FORBIDDEN' } } }, origin)
    t.equal((await app.anybody.post('/mcp', list, { origin })).status, 403)
    t.equal((await app.anybody.post('/mcp?x=1', list, { origin })).status, 403)
    t.equal((await app.anybody.post('/mcp/', list, { origin })).status, 403)
  }
  for (const origin of [ORIGIN, app.base]) t.equal((await send(list, { origin })).status, 200, origin)
  const preflight = await app.anybody.call('OPTIONS', '/mcp', {
    headers: {
      origin: ORIGIN,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'mcp-protocol-version',
    },
  })
  t.match(preflight.headers.get('access-control-allow-headers'), 'MCP-Protocol-Version')
})

t.test('the request id of the client is that of the operation and its error', async (t) => {
  const reply = await sendMessage(
    app,
    { ...headers, 'x-request-id': 'agent-request-1' },
    {
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name: 'products_get', arguments: { id: 'x' } },
    },
  )
  const body: Json = await reply.json()
  t.equal(reply.headers.get('x-request-id'), 'agent-request-1')
  t.equal(JSON.parse(body.result.content[0].text).error.request_id, 'agent-request-1')
})

t.test('without MCP, the address does not exist', async (t) => {
  const { admin } = await testApp(t)
  const reply = await admin.post('/mcp', list)
  t.match(reply, { status: 404, body: { error: { code: 'RESOURCE_NOT_FOUND' } } })
  t.equal((await admin.get('/mcp')).status, 404)
})
