/** With an identity provider, challenges name the metadata that lead an agent's client to it (RFC 9728). */
import t from 'tap'
import { ISSUER, signUserToken, startProvider } from '../auth/identity-provider.ts'
import { testApp } from '../helpers/app.ts'
import { connectAgent, MCP, sendMessage } from './agent.ts'

const { settings } = await startProvider(t)
const PUBLIC_URL = 'https://api.example.com'
const PATH = '/.well-known/oauth-protected-resource'

t.test('the 401 names the metadata, which name the provider', async (t) => {
  const app = await testApp(t, { ...MCP, ...settings, PUBLIC_URL })
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  for (const [headers, error] of [
    [{}, ''],
    [{ authorization: 'Bearer wrong' }, ', error="invalid_token"'],
  ] as const) {
    const reply = await sendMessage(app, headers, message)
    t.equal(reply.status, 401)
    const expected = `Bearer realm="resource-api"${error}, resource_metadata="${PUBLIC_URL}${PATH}"`
    t.equal(reply.headers.get('www-authenticate'), expected)
  }
  for (const path of [PATH, `${PATH}/mcp`]) {
    const { body, status } = await app.anybody.get(path)
    t.equal(status, 200)
    t.match(body, {
      resource: `${PUBLIC_URL}/mcp`,
      authorization_servers: [ISSUER],
      bearer_methods_supported: ['header'],
    })
  }
  t.notMatch((await app.anybody.get('/users')).headers.get('www-authenticate'), /resource_metadata/)
})

t.test('without PUBLIC_URL, the addresses are those of the server', async (t) => {
  const app = await testApp(t, { ...MCP, ...settings })
  t.equal((await app.anybody.get(PATH)).body.resource, `${app.base}/mcp`)
})

t.test('a token of the provider connects its user', async (t) => {
  const app = await testApp(t, { ...MCP, ...settings })
  const { body } = await app.admin.post('/users', { name: 'Ada', email: 'ada@agents.example' })
  const token = await signUserToken('ada of agents', 'ada@agents.example')
  const agent = await connectAgent(t, app, { authorization: `Bearer ${token}` })
  t.equal((await agent.callTool('users_get', { id: 'me' })).body.data.id, body.data.id)
})
