/** An agent can do what its credential can, and sees no other tools. */
import t from 'tap'
import { ISSUER, signUserToken, startProvider } from '../../../accounts/test/auth/identity-provider.ts'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { connectAgent, MCP, request, sendMessage } from './agent.ts'

const app = await testApp(t, MCP)
const PATH = '/.well-known/oauth-protected-resource'
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

t.test('an API key has the tools of its scopes', async (t) => {
  const { key } = await app.person('admin', ['products:read', 'orders:write', 'events:read'])
  const agent = await connectAgent(t, app, { 'x-api-key': key })
  t.strictSame((await agent.listNames()).toSorted(), [
    ...['events_get', 'events_list'],
    ...[
      'orders_aggregate',
      'orders_create',
      'orders_delete',
      'orders_get',
      'orders_list',
      'orders_replace',
      'orders_update',
    ],
    ...['products_aggregate', 'products_get', 'products_list'],
  ])
  t.equal((await agent.callTool('products_list')).isError, false)
  // The scope of an include is that of the included resource.
  const { body } = await agent.callTool('orders_list', { include: ['user'] })
  t.equal(body.error.code, 'FORBIDDEN')
})

t.test('a role has the tools of its rules, with a key and with a token', async (t) => {
  const member = await app.person('member')
  for (const headers of [{ 'x-api-key': member.key }, bearer(member.token)]) {
    const agent = await connectAgent(t, app, headers)
    const names = await agent.listNames()
    const missing = ['users_list', 'users_create', 'users_delete', 'products_create', 'products_delete']
    for (const name of [...missing, 'orders_delete']) t.notOk(names.includes(name), name)
    for (const name of ['users_get', 'products_list', 'posts_create', 'orders_create', 'orders_update'])
      t.ok(names.includes(name), name)
  }
})

t.test('the rules of rows hold', async (t) => {
  const [one, other] = [await app.person('member'), await app.person('member')]
  const agent = await connectAgent(t, app, bearer(one.token))
  t.equal((await agent.callTool('users_get', { id: 'me' })).body.data.id, one.id)
  const refused = await agent.callTool('users_get', { id: other.id })
  t.match(refused, { isError: true, body: { error: { code: 'FORBIDDEN' } } })
  const { body } = await app.admin.post('/products', { sku: 'secret-draft', name: 'Draft', price_amount: 1 })
  const { body: list } = await agent.callTool('products_list', { sku: ['secret-draft'] })
  t.strictSame(list.data, [])
  t.equal((await agent.callTool('products_get', { id: body.data.id })).body.error.code, 'FORBIDDEN')
})

t.test('a tool that the credential cannot use is unknown', async (t) => {
  const { key } = await app.person('member', ['products:read'])
  const headers = { 'x-api-key': key }
  const results = []
  const hidden = ['users_list', 'orders_list', 'products_create']
  for (const name of [...hidden, 'nothing', '__proto__', 'constructor', '']) {
    const { body, status } = await request(app, headers, 'tools/call', { name, arguments: {} })
    t.equal(status, 200)
    results.push({ ...body.error, message: body.error.message.replace(name, '') })
  }
  for (const each of results) t.strictSame(each, results[0])
  t.equal(results[0]?.code, -32602)
})

t.test('a change of the role or of the key is in force at the next request', async (t) => {
  const person = await app.person('member')
  const agent = await connectAgent(t, app, bearer(person.token))
  t.notOk((await agent.listNames()).includes('users_list'))
  t.equal((await app.admin.patch(`/users/${person.id}`, { role: 'manager' })).status, 200)
  t.ok((await agent.listNames()).includes('users_list'))
  t.equal((await app.admin.patch(`/users/${person.id}`, { status: 'suspended' })).status, 200)
  await t.rejects(agent.listNames(), { message: /Invalid or expired token/ })
})

t.test('without a valid credential, the answer is 401 and says what is wrong', async (t) => {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const cases: [headers: Record<string, string>, text: string][] = [
    [{}, 'Authentication required'],
    [bearer('wrong'), 'Invalid or expired token'],
    [{ 'x-api-key': 'wrong' }, 'Invalid or expired API key'],
  ]
  for (const [headers, text] of cases) {
    const reply = await sendMessage(app, headers, message)
    t.equal(reply.status, 401)
    t.match(await reply.json(), { error: { code: 'UNAUTHORIZED', message: text } })
    const challenge = reply.headers.get('www-authenticate')
    t.match(challenge, /^Bearer realm="resource-api"/)
    t.notMatch(challenge, /resource_metadata/, 'there is no identity provider')
  }
  t.equal((await app.anybody.get(PATH)).status, 404)
  const both = { 'x-api-key': ADMIN_KEY, ...bearer('x') }
  t.match(await (await sendMessage(app, both, message)).json(), { error: { code: 'INVALID_REQUEST' } })
})

t.test('HIDE_FORBIDDEN and REQUIRE_IF_MATCH hold for calls, which can state the tag', async (t) => {
  const strict = await testApp(t, { ...MCP, HIDE_FORBIDDEN: 'true', REQUIRE_IF_MATCH: 'true' })
  const [one, other] = [await strict.person('member'), await strict.person('member')]
  const member = await connectAgent(t, strict, bearer(one.token))
  t.equal((await member.callTool('users_get', { id: other.id })).body.error.code, 'RESOURCE_NOT_FOUND')
  const agent = await connectAgent(t, strict, { 'x-api-key': ADMIN_KEY })
  const { body, texts } = await agent.callTool('products_create', { sku: 'a', name: 'A', price_amount: 1 })
  const { id } = body.data
  t.equal((await agent.callTool('products_delete', { id })).body.error.code, 'PRECONDITION_REQUIRED')
  const if_match = texts[1]?.replace('ETag: ', '')
  t.equal((await agent.callTool('products_delete', { id, if_match })).isError, false)
})

t.test('with an identity provider, a 401 names the metadata that lead to it (RFC 9728)', async (t) => {
  const provider = await startProvider(t)
  const PUBLIC_URL = 'https://api.example.com'
  const named = await testApp(t, { ...MCP, ...provider.settings, PUBLIC_URL })
  for (const [headers, error] of [
    [{}, ''],
    [bearer('wrong'), ', error="invalid_token"'],
  ] as const) {
    const reply = await sendMessage(named, headers, { jsonrpc: '2.0', id: 1, method: 'tools/list' })
    t.equal(reply.status, 401)
    const expected = `Bearer realm="resource-api"${error}, resource_metadata="${PUBLIC_URL}${PATH}"`
    t.equal(reply.headers.get('www-authenticate'), expected)
  }
  for (const path of [PATH, `${PATH}/mcp`]) {
    const { body, status } = await named.anybody.get(path)
    t.equal(status, 200)
    const servers = { authorization_servers: [ISSUER], bearer_methods_supported: ['header'] }
    t.match(body, { resource: `${PUBLIC_URL}/mcp`, ...servers })
  }
  t.notMatch((await named.anybody.get('/users')).headers.get('www-authenticate'), /resource_metadata/)

  const unnamed = await testApp(t, { ...MCP, ...provider.settings })
  const { resource } = (await unnamed.anybody.get(PATH)).body
  t.equal(resource, `${unnamed.base}/mcp`, 'without PUBLIC_URL, the address is that of the server')
  const { body } = await unnamed.admin.post('/users', { name: 'Ada', email: 'ada@agents.example' })
  const token = await signUserToken('ada of agents', 'ada@agents.example')
  const agent = await connectAgent(t, unnamed, bearer(token))
  t.equal((await agent.callTool('users_get', { id: 'me' })).body.data.id, body.data.id)
})
