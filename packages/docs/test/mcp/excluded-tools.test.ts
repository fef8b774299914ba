/** An operator leaves out tools: all that write, or those of a list. */
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { connectAgent, MCP, request } from './agent.ts'

const headers = { 'x-api-key': ADMIN_KEY }

t.test('with MCP_READ_ONLY there are only the tools that read', async (t) => {
  const app = await testApp(t, { ...MCP, MCP_READ_ONLY: 'true' })
  const agent = await connectAgent(t, app, headers)
  const { tools } = await agent.client.listTools()
  t.ok(tools.length > 10)
  for (const { name, annotations } of tools) t.equal(annotations?.readOnlyHint, true, name)
  const sent = { name: 'products_create', arguments: { sku: 'a', name: 'A', price_amount: 1 } }
  const refused = await request(app, headers, 'tools/call', sent)
  t.match(refused.body.error, { code: -32602, message: 'Unknown tool: products_create' })
  t.equal((await app.admin.post('/products', sent.arguments)).status, 201, 'the API itself is as it was')
})

t.test('MCP_EXCLUDE_TOOLS leaves out tools by their names and by the end of names', async (t) => {
  const app = await testApp(t, { ...MCP, MCP_EXCLUDE_TOOLS: '*_delete,products_replace' })
  const agent = await connectAgent(t, app, headers)
  const names = await agent.listNames()
  t.strictSame(
    names.filter((name) => /_delete$|^products_/.test(name)),
    ['products_aggregate', 'products_create', 'products_get', 'products_list', 'products_update'],
  )
  t.ok(names.includes('orders_replace'))
  for (const name of ['users_delete', 'products_replace']) {
    const { body } = await request(app, headers, 'tools/call', { name, arguments: { id: app.adminId } })
    t.equal(body.error.message, `Unknown tool: ${name}`)
  }
  t.equal((await app.admin.get('/users/me')).status, 200)
})

t.test('MCP_EXCLUDE_TOOLS may name tools that MCP_READ_ONLY leaves out already', async (t) => {
  const settings = { MCP_READ_ONLY: 'true', MCP_EXCLUDE_TOOLS: '*_delete,products_create,users_list' }
  const app = await testApp(t, { ...MCP, ...settings })
  const names = await (await connectAgent(t, app, headers)).listNames()
  t.ok(names.includes('products_list'))
  t.notOk(names.includes('users_list'))
})

t.test('a name that is of no tool stops the start', async (t) => {
  for (const pattern of ['products_remove', '*_erase', 'delete', '**_delete']) {
    const start = testApp(t, { ...MCP, MCP_EXCLUDE_TOOLS: `*_delete,${pattern}` })
    await t.rejects(start, { message: `MCP_EXCLUDE_TOOLS names ${pattern}, but there is no such tool` })
  }
})
