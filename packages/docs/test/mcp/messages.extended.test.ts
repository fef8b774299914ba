/** What `POST /mcp` answers to messages, right and wrong, and what it refuses by HTTP. */
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { MCP, sendMessage } from './agent.ts'

const ORIGIN = 'https://agents.example'
const app = await testApp(t, { ...MCP, CORS_ORIGINS: ORIGIN })
const message = (method: unknown, params?: unknown, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
const list = message('tools/list')
const call = (name: unknown, sent?: unknown, others = {}) =>
  message('tools/call', { name, arguments: sent, ...others })
const product = (sku: string) => ({ sku, name: 'N', price_amount: 1 })

async function send(body: unknown, headers: Record<string, string> = {}) {
  const reply = await sendMessage(app, { 'x-api-key': ADMIN_KEY, ...headers }, body)
  const text = await reply.text()
  const parsed: Json = text === '' ? undefined : JSON.parse(text)
  return { status: reply.status, headers: reply.headers, body: parsed }
}

/** Returns the error of a call of an operation. */
const readError = ({ body }: { body: Json }) => JSON.parse(body.result.content[0].text).error

const clientInfo = { name: 'x', version: '1' }
const connect = (protocolVersion: unknown, others = {}) =>
  message('initialize', { protocolVersion, capabilities: {}, clientInfo, ...others }, 'a')

t.test('a connection is made with each revision of the protocol, and without a session', async (t) => {
  for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']) {
    const reply = await send(connect(version))
    t.match(reply.body, { id: 'a', result: { protocolVersion: version } })
    t.same(reply.body.result.capabilities, { tools: {} })
    t.equal(reply.headers.get('mcp-session-id'), null)
    t.match(reply.headers.get('content-type'), 'application/json')
    t.equal(reply.headers.get('cache-control'), 'no-store')
  }
  t.equal((await send(connect('1999-01-01'))).body.result.protocolVersion, '2025-11-25')
  t.strictSame((await send(message('ping', undefined, 5))).body, { jsonrpc: '2.0', id: 5, result: {} })
  for (const accept of [
    ...['*/*', 'application/json', 'text/event-stream'],
    'application/json, text/event-stream',
  ])
    t.equal((await send(list, { accept })).status, 200, accept)
  t.equal((await send(list, { 'mcp-protocol-version': '2025-06-18' })).status, 200)
  const wrong = await send(list, { 'mcp-protocol-version': '1999-01-01' })
  t.match(wrong, { status: 400, body: { error: { code: -32000 }, id: null } })
})

t.test('unknown methods and wrong parameters are errors of JSON-RPC', async (t) => {
  const unknown = ['resources/list', 'prompts/get', 'nothing', '__proto__', 'constructor', 'logging/setLevel']
  for (const method of unknown)
    t.match((await send(message(method))).body, { id: 1, error: { code: -32601 } }, method)
  for (const sent of [
    message('tools/call'),
    message('tools/call', {}),
    ...[call(5), call(null), call(['products_list'])],
    ...[call('products_list', []), call('products_list', 'x'), call('products_list', false)],
    message('initialize'),
    ...[connect(5), connect('2025-11-25', { capabilities: null }), connect('2025-11-25', { clientInfo: [] })],
    message('tools/list', { cursor: 5 }),
  ]) {
    const { error } = (await send(sent)).body
    t.equal(error?.code, -32602, JSON.stringify(sent))
    t.match(error?.message, 'params')
  }
  const experimental = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x${i}`, i]))
  const many = await send(message('initialize', { capabilities: { experimental } }))
  t.ok(JSON.stringify(many.body).length < 700, 'not all that is wrong is repeated')
  const long = await send(call('x'.repeat(900_000)))
  t.ok(JSON.stringify(long.body).length < 300, 'a long name is not repeated')
})

t.test('null parameters count as absent, and so does what makes a call a task', async (t) => {
  const { body: listed } = await send(list)
  for (const params of [null, { cursor: null }, { _meta: null }])
    t.strictSame((await send({ ...list, params })).body, listed, JSON.stringify(params))
  const { body } = await send(call('users_list', null, { _meta: null }))
  t.equal(body.result?.structuredContent.data.length, 1)
  for (const [i, task] of [{ ttl: 60_000 }, {}, 5, null].entries()) {
    const sent = product(`task-${i}`)
    const made = await send(call('products_create', sent, { task }))
    t.match(made.body.result?.structuredContent?.data, sent)
  }
})

t.test('what is no message is 400', async (t) => {
  const raw = (params: string) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
  for (const body of [
    ...['', '{', 'null', '5', '"x"', '[]', JSON.stringify([list]), JSON.stringify([list, list])],
    ...[{}, { jsonrpc: '1.0', id: 1, method: 'ping' }, { id: 1, method: 'ping' }],
    ...[message('ping', undefined, null), message('ping', undefined, {}), message(undefined), message(5)],
    raw('{"name":"products_list","arguments":{"__proto__":{"limit":1}}}'),
    raw('{"name":"users_get","arguments":{"id":"me","id":"x"}}'),
    raw(`${'{"a":'.repeat(30)}1${'}'.repeat(30)}`),
  ]) {
    const { status, body: answer } = await send(body)
    t.equal(status, 400, JSON.stringify(body))
    t.ok(answer.error.code)
  }
})

t.test('notifications and responses are accepted, and do nothing', async (t) => {
  const notify = (method: string, params?: unknown) => ({ jsonrpc: '2.0', method, params })
  for (const sent of [
    notify('notifications/initialized'),
    notify('notifications/cancelled', { requestId: 1 }),
    notify('notifications/nothing'),
    notify('tools/call', { name: 'products_create', arguments: product('n') }),
    { jsonrpc: '2.0', id: 1, result: {} },
    { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } },
  ])
    t.equal((await send(sent)).status, 202, JSON.stringify(sent))
  t.strictSame((await app.admin.get('/products?sku=n')).body.data, [])
})

t.test('the limits of bodies and media types are those of every request', async (t) => {
  const create = (description: string) => call('products_create', { ...product('big'), description })
  const large = await send(create('x'.repeat(1_000_000)))
  t.match(readError(large).details, [{ field: 'description', code: 'TOO_LONG' }])
  t.equal((await send(create('x'.repeat(1_048_576)))).status, 413)
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`name${i}`, i]))
  t.equal(readError(await send(call('products_create', many))).details.length, 50)
  const query = await send(call('products_list', { search: 'x'.repeat(100_000) }))
  t.equal(readError(query).code, 'URI_TOO_LONG')
  t.equal((await send('x', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await send(list, { 'content-encoding': 'gzip' })).status, 415)
  const named = await send(call('products_get', { id: 'x' }), { 'x-request-id': 'agent-request-1' })
  t.equal(named.headers.get('x-request-id'), 'agent-request-1')
  t.equal(readError(named).request_id, 'agent-request-1')
})

t.test('other methods are 405, and without MCP the address does not exist', async (t) => {
  for (const method of ['GET', 'DELETE', 'PUT', 'PATCH', 'HEAD']) {
    const reply = await app.admin.call(method, '/mcp')
    t.equal(reply.status, 405, method)
    t.equal(reply.headers.get('allow'), 'OPTIONS, POST')
  }
  t.equal((await app.admin.post('/v1/mcp', list)).status, 404)
  const { admin } = await testApp(t)
  const reply = await admin.post('/mcp', list)
  t.match(reply, { status: 404, body: { error: { code: 'RESOURCE_NOT_FOUND' } } })
  t.equal((await admin.get('/mcp')).status, 404)
})

t.test('a foreign Origin is 403, with and without credentials', async (t) => {
  const similar = app.base.replace('127.0.0.1', 'localhost.evil.example')
  for (const origin of ['https://evil.example', 'null', similar]) {
    const reply = await send(list, { origin })
    t.match(reply, { status: 403, body: { error: { code: 'FORBIDDEN' } } }, origin)
    for (const path of ['/mcp', '/mcp?x=1', '/mcp/'])
      t.equal((await app.anybody.post(path, list, { origin })).status, 403, path)
  }
  for (const origin of [ORIGIN, app.base]) t.equal((await send(list, { origin })).status, 200, origin)
  const headers = {
    origin: ORIGIN,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'mcp-protocol-version',
  }
  const preflight = await app.anybody.call('OPTIONS', '/mcp', { headers })
  t.match(preflight.headers.get('access-control-allow-headers'), 'MCP-Protocol-Version')
})
