/** docs/error-codes.md is generated from the codes, and the documentation page of each version explains the same. Its sections. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { failures, fieldCodes } from '../../schemas/error.ts'
import { type Json, testApp } from '../helpers/app.ts'

const page = readFileSync(new URL('../../docs/error-codes.md', import.meta.url), 'utf8')

const { anybody } = await testApp(t)

t.test('the page has a row for every code', async (t) => {
  for (const code of [...Object.keys(failures), ...fieldCodes]) t.match(page, `| \`${code}\` |`)
})

t.test('the documentation page has the table, and an entry with an anchor for every code', async (t) => {
  for (const version of [1, 2]) {
    const { description } = (await anybody.get(`/docs/v${version}.json`)).body.info
    for (const [code, { status }] of Object.entries(failures)) {
      const anchor = `#v${version}/description/${code.toLowerCase()}`
      t.ok(description.includes(`| [\`${code}\`](${anchor}) | `), code)
      t.match(description, new RegExp(`^### ${code}\n\nStatus (?:\\d+ or )?${status}\\.`, 'm'))
    }
    for (const code of fieldCodes) t.ok(description.includes(`\n### ${code} in a field\n\n`), code)
  }
})

t.test('the page has the operations of the OpenAPI document and no credentials', async (t) => {
  for (const version of [1, 2]) {
    const { body: shown } = await anybody.get(`/docs/v${version}.json`)
    const { body: served } = await anybody.get(`/openapi/v${version}.json`)
    t.same(Object.keys(shown.paths), Object.keys(served.paths))
    t.match(shown.paths['/livez'].get.operationId, served.paths['/livez'].get.operationId)
    // The page shows the schemas in another form: `page-document.test.ts`.
    const listFields = ({ components }: Json) =>
      Object.entries<Json>(components.schemas).map(([name, schema]) => [
        name,
        Object.keys(schema.properties ?? {}),
      ])
    t.same(listFields(shown), listFields(served))
    t.notMatch(JSON.stringify(shown), /"security(?:Schemes)?":/)
    t.match(JSON.stringify(served), /"securitySchemes":/)
    const titles = Object.fromEntries(shown.tags.map((tag: Json) => [tag.name, tag['x-displayName']]))
    t.match(titles, { users: 'Users', 'user-profiles': 'User profiles', 'api-keys': 'API keys' })
    const sections = [...shown.info.description.matchAll(/^## (.+)$/gm)].map(([, title]) => title)
    t.same(sections, [
      ...['Introduction', 'Getting an API key', 'Authentication', 'Permissions', 'Accounts and mail'],
      ...['Client libraries', 'Pagination', 'Filtering and sorting', 'Batches', 'Exports', 'Imports'],
      ...['Idempotency', 'Events and webhooks'],
      ...['Errors', 'Versions', 'Limits', 'Conditional requests', 'Headers of every response'],
    ])
  }
})

t.test('the page has a section on agents if the service has tools for them', async (t) => {
  const withTools = await testApp(t, { MCP: 'true' })
  const read = async ({ get }: typeof anybody) => (await get('/docs/v1.json')).body.info.description
  t.match(await read(withTools.anybody), /^## Agents\n[\s\S]+\/mcp"/m)
  t.notMatch(await read(anybody), /^## Agents/m)
})
