/** The collections of a project are tools too, with the operations that their definitions declare. */
import { readFileSync } from 'node:fs'
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { Id, Text } from '../../../api/src/schemas/types.ts'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { replaceResource, withActions } from '../../../testing/helpers/serve.ts'
import { connectAgent, MCP } from './agent.ts'

const Transfer = Type.Object(
  { id: Id('The new owner'), reason: Text({ minLength: 1, maxLength: 100, examples: ['Moved'] }) },
  { title: 'TransferCreate' },
)

const adopted = replaceResource(resourcesWithNotes, 'orders', (orders) =>
  withActions(orders, {
    'hand-overs': {
      operationId: 'handOver',
      summary: 'Hand an order over',
      description: 'Notes who gets the order.',
      access: { admin: true },
      body: Transfer,
      run: ({ store, current, body: { id, reason } }) => store.update(current, { note: `${id}: ${reason}` }),
    },
  }),
)

t.test('an own operation is a tool, and so is each operation of a collection of a project', async (t) => {
  const database = await testDatabase(t)
  await createNotesTable(database)
  const app = await testApp(t, MCP, { database, resources: adopted })
  const agent = await connectAgent(t, app, { 'x-api-key': ADMIN_KEY })
  const { tools } = await agent.client.listTools()
  const tool = tools.find(({ name }) => name === 'orders_hand_overs')
  t.match(tool, {
    title: 'Hand an order over',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  })
  // A member of its body with the name of an id has another name.
  t.strictSame(tool?.inputSchema.required, ['id', 'body_id', 'reason'])
  const product = { sku: 'a', name: 'A', price_amount: 1, stock: 1, status: 'active' }
  const { id: product_id } = (await agent.callTool('products_create', product)).body.data
  const order = await agent.callTool('orders_create', { items: [{ product_id, quantity: 1 }] })
  const { id } = order.body.data
  const { body } = await agent.callTool('orders_hand_overs', { id, body_id: app.adminId, reason: 'Moved' })
  t.match(body.data, { id, note: `${app.adminId}: Moved` })

  const names = tools.map(({ name }) => name).filter((name) => name.startsWith('notes_'))
  t.strictSame(
    names.sort(),
    ['create', 'delete', 'get', 'list', 'replace', 'update'].map((operation) => `notes_${operation}`),
  )
})

t.test('nothing of MCP is imported at the start of a server without it', async (t) => {
  const { peerDependencies } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  t.ok(peerDependencies['@modelcontextprotocol/server'])
  const seen = new Set<string>()
  const external = new Set<string>()
  const visit = (url: URL) => {
    if (seen.has(url.href)) return
    seen.add(url.href)
    const text = readFileSync(url, 'utf8')
    for (const [, specifier = ''] of text.matchAll(/^(?:import (?!type )[^'(]*|\} from )'([^']+)'/gm))
      if (specifier.startsWith('.')) visit(new URL(specifier, url))
      else if (/^@resource-api\/\w+$/.test(specifier))
        visit(new URL(`../../../${specifier.split('/')[1]}/src/index.ts`, import.meta.url))
      else external.add(specifier)
  }
  visit(new URL('../../../../src/app.ts', import.meta.url))
  t.ok(external.has('fastify'))
  t.strictSame(
    [...external].filter((each: Json) => /modelcontextprotocol|light-my-request|zod/.test(each)),
    [],
  )
})
