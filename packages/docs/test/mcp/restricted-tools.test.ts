/** The tools of an agent have the fields that its role may read and write, and so have their results. */
import t from 'tap'
import { hiddenNames, openParts, SECRETS } from '../../../resources/test/collection/restricted-parts.ts'
import { connectAgent, MCP } from './agent.ts'

const { base, people, sold } = await openParts(t, MCP)

for (const role of ['manager', 'member'] as const) {
  t.test(`as a ${role}`, async (t) => {
    const agent = await connectAgent(t, { base }, { 'x-api-key': people[role].key })
    const { tools } = await agent.client.listTools()
    const own = tools.filter(({ name }) => name.startsWith('parts_'))
    const names = own.map(({ name }) => name)
    t.ok(names.includes('parts_inspections'))
    t.equal(names.includes('parts_delete'), role === 'member', 'a manager deletes none')
    for (const { name, inputSchema, outputSchema } of own) {
      const text = JSON.stringify([inputSchema, outputSchema])
      for (const hidden of hiddenNames[role])
        t.notMatch(text, new RegExp(`"-?${hidden}(?:_\\w+)?"`), `${name}: ${hidden}`)
    }
    // Those of included resources too.
    for (const { name, outputSchema } of tools.filter((tool) => tool.name.startsWith('repairs_'))) {
      const text = JSON.stringify(outputSchema ?? {})
      for (const hidden of hiddenNames[role])
        t.notMatch(text, new RegExp(`"${hidden}"`), `${name}: ${hidden}`)
      if (name === 'repairs_list') t.match(text, /"part":\{.*"serial"/, 'what the role may read is there')
    }
    const create = own.find(({ name }) => name === 'parts_create')
    t.equal('stock' in (create?.inputSchema.properties ?? {}), role === 'manager')
    const { body, texts } = await agent.callTool('parts_get', { id: sold.id })
    for (const pattern of SECRETS[role]) t.notMatch(texts.join(), pattern)
    t.equal(body.data.id, sold.id)
    const { body: related } = await agent.callTool('repairs_list', { include: ['part'] })
    for (const pattern of SECRETS[role]) t.notMatch(JSON.stringify(related), pattern)
    const unknown = await agent.callTool('parts_list', { grade: 'zeta' })
    t.equal(unknown.body.error.details[0].code, 'UNKNOWN_PARAMETER')
    const locked = await agent.callTool('parts_update', { id: sold.id, cost: 1 })
    t.match(locked.body.error.details, [{ field: 'cost', code: 'READ_ONLY' }])
  })
}
