/** A client that leaves during a call: the operation gives back what it took, and a write that has begun ends. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { waitUntil } from '../helpers/time.ts'
import { connectAgent, MCP } from './agent.ts'
import { createHeldDatabase } from './held-database.ts'

for (const [name, sent] of [
  ['products_list', {}],
  ['products_create', { sku: 'left', name: 'Left', price_amount: 1 }],
] as const) {
  t.test(`a client that leaves during ${name}`, async (t) => {
    const held = await createHeldDatabase(t)
    const app = await testApp(t, { ...MCP, USER_CONCURRENCY: '1' }, { database: held.database })
    const { client, key } = await app.person('admin')
    const headers = { 'content-type': 'application/json', 'x-api-key': key }
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: sent },
    })
    held.hold()
    const leaving = new AbortController()
    const call = fetch(`${app.base}/mcp`, { method: 'POST', headers, body, signal: leaving.signal })
    await waitUntil(() => held.waiting.length > 0)
    leaving.abort()
    await t.rejects(call, { name: 'AbortError' })
    await waitUntil(() => app.app.admissionQueue.used === 0)
    held.release()
    // The operation holds the user's only slot to its end.
    await waitUntil(async () => (await client.get('/products')).status === 200)
    const agent = await connectAgent(t, app, { 'x-api-key': key })
    const { body: list } = await agent.callTool('products_list', { sku: ['left'] })
    t.equal(list.data.length, name === 'products_create' ? 1 : 0)
    t.equal(app.app.admissionQueue.used, 0)
  })
}
