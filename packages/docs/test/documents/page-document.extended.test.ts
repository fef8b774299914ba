/** The documents of the documentation page: the guide, what parameters mean, and what the page shows of schemas. */
import t from 'tap'
import { failures, fieldCodes } from '../../../http/src/schemas/error.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { definitions } from '../../../testing/helpers/definitions.ts'
import { createReplyChecker } from '../../../testing/helpers/reply-checker.ts'
import {
  userProfilesResource as userProfiles,
  usersResource as users,
} from '../../../testing/helpers/shop.ts'

const PUBLIC_URL = 'https://api.clinic.test/v'
const { anybody } = await testApp(t, { PUBLIC_URL })

const SECTIONS = [
  ...['Introduction', 'Getting an API key', 'Authentication', 'Permissions', 'Accounts and mail'],
  ...[
    'Client libraries',
    'Pagination',
    'Filtering and sorting',
    'Batches',
    'Exports',
    'Imports',
    'Idempotency',
  ],
  ...['Events and webhooks', 'Errors', 'Versions', 'Limits', 'Conditional requests'],
  'Headers of every response',
]

/** Calls a function with each object of a value. */
function visit(value: unknown, call: (each: Json) => void): void {
  if (typeof value !== 'object' || value === null) return
  call(value)
  for (const member of Object.values(value)) visit(member, call)
}

// All are read first: between two tests, nothing is awaited.
const documents = await Promise.all([1, 2].map((version) => anybody.get(`/docs/v${version}.json`)))
for (const [i, { body: document }] of documents.entries()) {
  const version = i + 1
  const guide: string = document.info.description

  t.test(`version ${version}: the guide has the address of the service`, async (t) => {
    for (const text of [
      `curl -X POST "${PUBLIC_URL}/api/v${version}/api-keys"`,
      'npm install @resource-api/client',
      `baseUrl: "${PUBLIC_URL}"`,
      'ask the operator of this service',
    ])
      t.match(guide, text)
    t.notMatch(guide, /\$(?:URL|KEY|TOKEN)\b/)
  })

  t.test(`version ${version}: each filter and each limit says what it selects`, async (t) => {
    const { operations } = createReplyChecker(document)
    for (const { name, plural, filters, ranges = [] } of definitions) {
      const list = operations.find(({ operationId }) => operationId === `list${plural}`)
      if (!list) continue
      const getDescription = (parameter: string): unknown =>
        list.declared.parameters.find((each: Json) => each.name === parameter)?.description
      for (const filter of filters)
        t.match(getDescription(filter), `Only resources whose \`${filter}\` is one of these values`, name)
      for (const range of ranges)
        t.match(getDescription(`${range}_min`), `\`${range}\` is at least this value`)
    }
    const { UserStatusFilter } = document.components.parameters
    t.match(UserStatusFilter.description, /\(only active users can authenticate\)$/)
  })

  t.test(`version ${version}: no regular expression stands for a format, and no value twice`, async (t) => {
    const found: Json[] = []
    visit({ ...document.components, examples: {}, headers: {} }, (each) => {
      const isTwice =
        each.items?.$ref !== undefined && document.components.schemas[each.items.$ref.split('/').at(-1)]?.enum
      if (/\\d\{4\}|\\x00/.test(each.pattern) || each.enum?.length === 1 || isTwice) found.push(each)
    })
    t.same(found, [])
    t.equal(document.components.parameters.CreatedAfter.schema.format, 'date-or-time')
  })

  t.test(`version ${version}: the guide has all its sections and an entry for every code`, async (t) => {
    const titles = [...guide.matchAll(/^## (.+)$/gm)].map(([, title]) => title)
    t.same(titles, SECTIONS)
    for (const [code, { status }] of Object.entries(failures)) {
      const anchor = `#v${version}/description/${code.toLowerCase()}`
      t.ok(guide.includes(`| [\`${code}\`](${anchor}) | `), code)
      t.match(guide, new RegExp(`^### ${code}\n\nStatus (?:\\d+ or )?${status}\\.`, 'm'))
    }
    for (const code of fieldCodes) t.ok(guide.includes(`\n### ${code} in a field\n\n`), code)
  })

  t.test(`version ${version}: the page has the operations of the document, and no credentials`, async (t) => {
    const { body: served } = await anybody.get(`/openapi/v${version}.json`)
    t.same(Object.keys(document.paths), Object.keys(served.paths))
    t.match(document.paths['/livez'].get.operationId, served.paths['/livez'].get.operationId)
    const listFields = ({ components }: Json) =>
      Object.entries<Json>(components.schemas).map(([name, each]) => [
        name,
        Object.keys(each.properties ?? {}),
      ])
    t.same(listFields(document), listFields(served))
    t.notMatch(JSON.stringify(document), /"security(?:Schemes)?":/)
    t.match(JSON.stringify(served), /"securitySchemes":/)
    const titles = Object.fromEntries(document.tags.map((tag: Json) => [tag.name, tag['x-displayName']]))
    t.match(titles, { users: 'Users', 'user-profiles': 'User profiles', 'api-keys': 'API keys' })
  })

  t.test(`version ${version}: an example with ids of other resources says so`, async (t) => {
    const { post } = document.paths[`/api/v${version}/webhook-endpoints/{endpoint_id}/replays`]
    t.ok(post.requestBody)
    visit(document.paths, ({ requestBody }) => {
      const [example] = Object.values<Json>(requestBody?.content['application/json'].examples ?? {})
      if (!example) return
      const name: string = example.$ref.split('/').at(-1)
      const hasIds = JSON.stringify(document.components.examples[name].value).includes('-3f2b8c1d4e5f"')
      t.equal(/ids that do not exist/.test(requestBody.description ?? ''), hasIds, name)
    })
    t.match(document.components.parameters.Id.description, 'does not exist: replace it')
  })
}

t.test('the guide follows the settings, the resources and the address of the server', async (t) => {
  const settings = { ALLOW_SIGNUP: 'true', MCP: 'true' }
  const { anybody: caller, base } = await testApp(t, settings, { resources: [users, userProfiles] })
  const { body, text } = await caller.get('/docs/v1.json')
  t.same(body.servers, [{ url: base }])
  const { description } = body.info
  t.match(description, `curl "${base}/api/v1/users/me"`)
  t.match(description, 'Create an account with `POST /users`.')
  t.match(description, /^## Agents\n[\s\S]+\/mcp"/m)
  t.match(description, '/api/v1/users?status=active')
  t.notMatch(text, /\/(?:products|posts|orders)\b/)
})
