/** The documents of the documentation page: the guide, what parameters mean, and what the page shows of schemas. */
import t from 'tap'
import { failures, fieldFailures } from '../../../http/src/schemas/error.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { definitions } from '../../../testing/helpers/definitions.ts'
import {
  userProfilesResource as userProfiles,
  usersResource as users,
} from '../../../testing/helpers/shop.ts'
import { createReplyChecker } from '../../../testing/src/reply-checker.ts'

const PUBLIC_URL = 'https://api.clinic.test/v'
const { anybody } = await testApp(t, { PUBLIC_URL })

/** Characters, without the sections about codes, which are searched, and the targets of links. Longer guides were not read. */
const MAX_GUIDE_LENGTH = 13_500

const SECTIONS = [
  ...['Getting an API key', 'Authentication', 'Permissions', 'Accounts and email', 'Pagination'],
  ...['Filtering and sorting', 'Aggregates', 'Errors', 'Codes of fields', 'Rate limits', 'Idempotency'],
  ...[
    'Dry runs',
    'Conditional requests',
    'Batches',
    'Exports',
    'Imports',
    'Events and webhooks',
    'TypeScript client',
  ],
  ...['Versions', 'Headers of every response'],
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
      `curl "${PUBLIC_URL}/api/v${version}/api-keys"`,
      'npm pack --workspace packages/client',
      `baseUrl: "${PUBLIC_URL}"`,
      'ask the operator of this service',
    ])
      t.match(guide, text)
    t.notMatch(guide, /\{\{\w+\}\}/)
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
    const { ProductNamePrefixFilter, ProductSkuFilter } = document.components.parameters
    for (const { description } of [ProductNamePrefixFilter, ProductSkuFilter]) t.notMatch(description, '(')
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

  t.test(
    `version ${version}: the guide has all its sections, and the title of every code has its status`,
    async (t) => {
      const titles = [...guide.matchAll(/^## (.+)$/gm)].map(([, title]) => title)
      t.same(titles, SECTIONS)
      for (const [code, { status, meaning, remedy }] of Object.entries(failures)) {
        const [, text] = guide.split(new RegExp(`^### (?:\\d+, )?${status} ${code}\n\n`, 'm'))
        t.ok(text?.startsWith(`${meaning}. **${remedy}.**\n`), code)
      }
      for (const [code, { meaning, remedy }] of Object.entries(fieldFailures))
        t.match(guide, `\n### ${code}\n\n${meaning}.${remedy ? ` **${remedy}.**` : ''}\n`)
      const rows = [...guide.matchAll(/^\| (\d{3}[\d, ]*) \| \*\*[A-Z].+\.\*\* (.+) \|$/gm)]
      const statuses = rows.flatMap(([, each = '']) => each.split(', '))
      t.same(statuses.toSorted(), [...new Set(guide.match(/(?<=^###.*)\b\d{3}\b/gm))].toSorted())
      const codes = rows.flatMap(([, , links = '']) => links.match(/(?<=\[)[A-Z_]+(?=\])/g) ?? [])
      t.same(codes.toSorted(), Object.keys(failures).toSorted(), 'the table links each code')
      const { length } = guide.replaceAll(/^### .+\n\n.+\n|\]\(#[^)]+\)/gm, '')
      t.ok(length < MAX_GUIDE_LENGTH, `${length} characters`)
      const { body: served } = await anybody.get(`/openapi/v${version}.json`)
      const link = `the [documentation page](${PUBLIC_URL}/docs/)`
      t.match(served.info.description, link)
      const shown = served.info.description.replace(link, 'this page')
      t.equal(shown.replaceAll('](#', `](#v${version}/description/`), guide)
    },
  )

  t.test(`version ${version}: links in descriptions lead to sections of the guide`, async (t) => {
    const links = [...JSON.stringify(document).matchAll(/\]\(#([^)]+)\)/g)].map(([, link]) => link)
    const anchors = [...guide.matchAll(/^##+ (.+)$/gm)].map(
      ([, title = '']) => `v${version}/description/${title.toLowerCase().replaceAll(/[ ,]+/g, '-')}`,
    )
    t.same(
      [...new Set(links)].filter((link) => !anchors.includes(link ?? '')),
      [],
    )
    t.ok(links.length > 10)
  })

  t.test(`version ${version}: the page has the operations of the document, in groups`, async (t) => {
    const { body: served } = await anybody.get(`/openapi/v${version}.json`)
    t.same(Object.keys(document.paths), Object.keys(served.paths))
    t.match(document.paths['/livez'].get.operationId, served.paths['/livez'].get.operationId)
    const listFields = ({ components }: Json) =>
      Object.entries<Json>(components.schemas).map(([name, each]) => [
        name,
        Object.keys(each.properties ?? {}),
      ])
    t.same(listFields(document), listFields(served))
    t.same(document.components.securitySchemes, served.components.securitySchemes)
    for (const { responses } of createReplyChecker(document).operations.map(({ declared }) => declared))
      t.ok(Object.keys(responses).filter((status) => status >= '400').length <= 8)
    const titles = Object.fromEntries(document.tags.map((tag: Json) => [tag.name, tag['x-displayName']]))
    t.match(titles, { users: 'Users', 'user-profiles': 'User profiles', 'api-keys': 'API keys' })
    const groups: Json[] = document['x-tagGroups']
    t.same(
      groups.map(({ name }) => name),
      ['Resources', 'Accounts', 'Events and webhooks', 'Service'],
    )
    t.same(
      groups.flatMap(({ tags }) => tags),
      document.tags.map(({ name }: Json) => name),
    )
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
  t.match(description, `curl -G "${base}/api/v1/users"`)
  t.match(description, 'Create an account with `POST /users`.')
  t.match(description, /^## Agents\n[\s\S]+\/mcp"/m)
  const { description: signUp } = body.paths['/api/v1/users'].post
  t.match(signUp, 'By role: admin: all; manager: none; member: none. Without credentials: all.')
  t.notMatch(text, 'redentials are optional.')
  const { value } = body.components.examples['UserCreate.flat']
  t.equal((await caller.post('/api/v1/users', value)).status, 201, 'a sample that needs no key')
  t.notMatch(text, /\/(?:products|posts|orders)\b/)
})
