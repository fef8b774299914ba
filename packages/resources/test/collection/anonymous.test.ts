/** A rule of `anonymous` opens lists and reads of a collection to requests without credentials, and nothing else. */
import { integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { listDefinitions, resources } from '../../../../src/resources.ts'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { Id, Integer, OneOf, Text } from '../../../api/src/schemas/types.ts'
import { common, folded } from '../../../database/src/columns.ts'
import { toEveryRole } from '../../../database/src/roles.ts'
import { users } from '../../../database/src/user-tables.ts'
import { formatAccessTables } from '../../../docs/src/openapi/access-tables.ts'
import { connectAgent, MCP, sendMessage } from '../../../docs/test/mcp/agent.ts'
import { type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import {
  collectIds,
  createClientFrom,
  formatWindow,
  getIds,
  getViolations,
} from '../../../testing/helpers/replies.ts'
import { createTable, insertRows } from '../../../testing/helpers/rows.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import { createReplyChecker } from '../../../testing/src/reply-checker.ts'
import type { ResourceDefinition } from '../../src/definition/definition.ts'
import { operation } from '../../src/routes/operation.ts'
import type { OwnRoutes } from '../../src/routes/own-routes.ts'
import { define } from './adopted.ts'

const STATUSES = ['public', 'hidden'] as const

// Drizzle finds the names of columns by those of their tables: no other test in the process has these.
const venues = pgTable('open_venues', { ...common(), name: text().notNull(), status: text().notNull() })
const shows = pgTable('open_shows', {
  ...common(),
  title: text().notNull(),
  status: text().notNull(),
  cost: integer().notNull(),
  venue_id: uuid()
    .notNull()
    .references(() => venues.id),
  owner_id: uuid()
    .notNull()
    .references(() => users.id),
  search: folded(),
})
const tickets = pgTable('open_tickets', {
  ...common(),
  show_id: uuid()
    .notNull()
    .references(() => shows.id),
})
const talks = pgTable('open_talks', {
  ...common(),
  user_id: uuid()
    .notNull()
    .references(() => users.id),
  title: text().notNull(),
})

const all = toEveryRole(true)
const writes = { create: all, replace: all, update: all, remove: all }
const Status = OneOf(STATUSES, { title: 'ShowStatus', default: 'hidden', description: 'The status' })
const Title = Text({ minLength: 1, maxLength: 50, description: 'The title', examples: ['Hamlet'] })
const ofPublic = [{ status: 'public', 'venue.status': 'public' }] as const

const showsResource = define(
  {
    ...{ name: 'shows', singular: 'Show', table: shows },
    fields: {
      ...{
        title: Title,
        status: Status,
        cost: Integer(0, 1_000_000, { description: 'The cost', examples: [1] }),
      },
      ...{ venue_id: Id('The venue'), owner_id: Id('The owner') },
    },
  },
  {
    access: { list: { ...all, anonymous: ofPublic }, read: { ...all, anonymous: ofPublic }, ...writes },
    fields: { cost: { read: ['admin', 'manager', 'member'] } },
    filters: ['title', 'cost'],
    ranges: ['cost'],
    sorts: { title: shows.title, cost: shows.cost, created_at: shows.created_at },
    search: ['title'],
    unindexed: ['title', 'cost', 'created_at', 'owner.role', 'venue.status'],
    relations: {
      owner: { to: users, local: 'owner_id', foreign: 'id', many: false, filters: ['role'] },
      venue: {
        to: venues,
        local: 'venue_id',
        foreign: 'id',
        many: false,
        inverse: 'shows',
        filters: ['status'],
      },
    },
  },
)
const served: readonly (ResourceDefinition | (typeof resources)[number])[] = [
  ...resources,
  showsResource,
  define(
    { name: 'venues', singular: 'Venue', table: venues, fields: { name: Title, status: Status } },
    {
      // One venue can be read by its id, or included; who lists them needs credentials.
      access: { list: all, read: { ...all, anonymous: [{ status: 'public' }] }, ...writes },
      filters: ['status'],
      sorts: { created_at: venues.created_at },
      unindexed: ['created_at', 'status'],
    },
  ),
  define(
    { name: 'tickets', singular: 'Ticket', table: tickets, fields: { show_id: Id('The show') } },
    {
      access: { list: all, read: all, ...writes },
      sorts: { created_at: tickets.created_at },
      unindexed: ['created_at'],
      relations: {
        show: { to: shows, local: 'show_id', foreign: 'id', many: false, inverse: 'tickets' },
      },
    },
  ),
  define(
    { name: 'talks', singular: 'Talk', table: talks, fields: { title: Title } },
    {
      access: { list: { ...all, anonymous: true }, read: { ...all, anonymous: true }, create: all },
      parent: { to: 'users', member: 'user_id' },
      sorts: { created_at: talks.created_at },
      unindexed: ['created_at'],
    },
  ),
]
const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over shows',
  async plugin(app) {
    app.get(
      '/reports/shows',
      operation({
        ...{ access: 'shows:list', summary: 'Count shows', description: 'Counts shows.' },
        run: async ({ getReadable }) => ({ count: await app.database.$count(shows, getReadable(shows)) }),
      }),
    )
  },
}

const database = await createSharedDatabase(t)
for (const table of [venues, shows, tickets, talks]) await createTable(database, table)
const overrides = { database, resources: served, routes: [reports] }
const api = await testApp(t, MCP, overrides)
const { admin, adminId, anybody, app } = api
const member = await api.person('member')

const post = async (path: string, body: Json): Promise<Json> => {
  const reply = await admin.post(path, body)
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}
const hall = await post('/venues', { name: 'Hall', status: 'public' })
const cellar = await post('/venues', { name: 'Cellar', status: 'hidden' })
const newShow = (title: string, status: string, venue = hall): Promise<Json> =>
  post('/shows', { title, status, cost: 98_765, venue_id: venue.id, owner_id: adminId })
const hamlet = await newShow('Hamlet', 'public')
const faust = await newShow('Faust', 'public')
const hidden = await newShow('Hamlet rehearsal', 'hidden')
const below = await newShow('Hamlet below', 'public', cellar)
await post('/tickets', { show_id: hamlet.id })
const talk = await post('/users/me/talks', { title: 'On stages' })

/** What no response without credentials may have: the owner, the hidden field, and rows that no rule opens. */
const SECRETS = [/@example\.com/, /password/, /cost|98765/, /rehearsal|below|Cellar/]

t.test('lists have the rows of the rule, however they are asked for', async (t) => {
  for (const [query, expected] of [
    ['', [faust.id, hamlet.id]],
    ['?page=1&sort=title', [faust.id, hamlet.id]],
    ['?sort=-title', [hamlet.id, faust.id]],
    ['?search=hamlet', [hamlet.id]],
    ['?search=rehearsal', []],
    ['?title=Hamlet,Hamlet rehearsal', [hamlet.id]],
    ['?venue.status=public', [faust.id, hamlet.id]],
    ['?venue.status=hidden', []],
    // A filter by what may not be read would show it.
    ['?owner.role=admin', []],
    ['?fields=title', [faust.id, hamlet.id]],
    ['?include=venue,owner,tickets', [faust.id, hamlet.id]],
  ] as const) {
    for (const version of ['v1', 'v2']) {
      const reply = await anybody.get(`/${version}/shows${query}`)
      t.same([reply.status, reply.status === 200 && getIds(reply)], [200, expected], `${version} ${query}`)
      for (const secret of SECRETS) t.notMatch(reply.text, secret, `${version} ${query}`)
    }
  }
  t.equal((await anybody.get('/shows?page=1')).body.pagination.total, 2)
  t.same(await collectIds(anybody, '/shows?limit=1'), [faust.id, hamlet.id], 'by cursors')
  t.equal((await admin.get('/shows?owner.role=admin')).body.data.length, 4, 'the filter works')
  t.equal((await admin.get('/shows')).body.data.length, 4, 'an admin reads all')

  const { cursor } = (await admin.get('/shows?limit=1')).body.pagination
  t.same(getIds(await anybody.get(`/shows?cursor=${cursor}`)), [faust.id, hamlet.id], "an admin's cursor")
})

t.test('a read has the row, its headers and its related rows that may be read', async (t) => {
  const reply = await anybody.get(`/shows/${hamlet.id}?include=venue,owner,tickets`)
  const { data, meta } = reply.body
  t.match(data, { id: hamlet.id, title: 'Hamlet', venue: { name: 'Hall' }, owner: null })
  t.same(data.tickets, [])
  t.same(meta.includes, { tickets: { has_more: false, truncated: [] } })
  t.same(Object.keys(data).includes('cost'), false)
  const ofAdmin = await admin.get(`/shows/${hamlet.id}?include=venue,owner,tickets`)
  t.match(ofAdmin.body.data, { cost: 98_765, owner: { id: adminId } })
  t.equal(ofAdmin.body.data.tickets.length, 1)
  t.equal((await anybody.get(`/shows/${below.id}?include=venue`)).status, 401)
  t.equal((await anybody.get(`/venues/${hall.id}?include=shows`)).body.data.shows.length, 2)

  for (const path of [`/shows/${hamlet.id}`, '/shows', `/shows/${hamlet.id}?include=owner`]) {
    const open = await anybody.get(path)
    const tag = open.headers.get('etag') ?? ''
    t.equal(open.headers.get('cache-control'), 'private, no-cache', 'no shared cache keeps it')
    t.equal(open.headers.get('vary'), 'Accept, Authorization, X-API-Key')
    t.not((await admin.get(path)).headers.get('etag'), tag, 'a role that reads more has another tag')
    t.equal((await anybody.get(path, { 'if-none-match': tag })).status, 304, path)
    t.equal((await admin.get(path, { 'if-none-match': tag })).status, 200, path)
    const head = await anybody.call('HEAD', path)
    t.same([head.status, head.text, head.headers.get('etag')], [200, '', tag])
  }
  const { headers } = await admin.get(`/shows/${hidden.id}`)
  const known = { 'if-none-match': headers.get('etag') ?? '' }
  t.equal((await anybody.get(`/shows/${hidden.id}`, known)).status, 401, 'a tag opens nothing')
  t.same(getIds(await anybody.get(`/users/${adminId}/talks`)), [talk.id], 'below a parent')
  t.equal((await anybody.get(`/users/${UNKNOWN_ID}/talks`)).status, 404)
})

t.test('a field that anonymous may not read does not exist', async (t) => {
  for (const query of ['cost=98765', 'cost_min=1', 'sort=cost', 'fields=cost', 'nope=1']) {
    const reply = await anybody.get(`/shows?${query}`)
    t.equal(reply.status, 400, query)
    t.notMatch(reply.body.error.details[0].message, /cost,|, cost/, query)
  }
  t.same(getViolations(await anybody.get('/shows?cost=1')), ['cost UNKNOWN_PARAMETER'])
  t.equal((await anybody.get(`/shows/${hamlet.id}?fields=cost`)).status, 400)
})

t.test('everything else needs credentials, and invalid ones are refused', async (t) => {
  const CHALLENGE = /^Bearer realm="/
  const body = { title: 'New', status: 'public', cost: 1, venue_id: hall.id, owner_id: adminId }
  const stream = { accept: 'text/event-stream' }
  for (const [method, path, headers = {}, sent] of [
    ['GET', `/shows/${hidden.id}`],
    ['HEAD', `/shows/${hidden.id}`],
    ['GET', `/shows/${below.id}`],
    ['GET', '/venues'],
    ['GET', `/venues/${cellar.id}`],
    ['GET', '/tickets'],
    ['GET', `/users/${adminId}`],
    ['GET', '/users/me/talks'],
    ['GET', `/users/me/talks/${talk.id}`],
    ['POST', '/shows', {}, body],
    ['POST', '/shows', { 'content-type': 'text/csv' }, 'title\nNew\n'],
    ['PUT', `/shows/${hamlet.id}`, {}, body],
    ['PATCH', `/shows/${hamlet.id}`, {}, { title: 'New' }],
    ['DELETE', `/shows/${hamlet.id}`],
    ['GET', '/shows', { accept: 'text/csv' }],
    ['HEAD', '/shows', { accept: 'application/x-ndjson' }],
    ['GET', '/shows?nope=1', { accept: 'application/x-ndjson, */*;q=0.1' }],
    ['GET', '/reports/shows'],
    ['GET', '/events'],
    ['GET', '/events', stream],
    ['POST', '/batches', {}, { operations: [{ method: 'POST', path: '/shows', body }] }],
  ] as [string, string, Record<string, string>?, unknown?][]) {
    const reply = await anybody.call(method, path, { headers, body: sent })
    t.equal(reply.status, 401, `${method} ${path}`)
    t.match(reply.headers.get('www-authenticate'), CHALLENGE)
    t.equal(reply.headers.get('cache-control'), 'no-store')
    if (method !== 'HEAD') t.equal(reply.body.error.message, 'Authentication required', `${method} ${path}`)
  }
  t.equal((await anybody.get(`/shows/${UNKNOWN_ID}`)).status, 404)
  t.equal((await anybody.get('/shows/nope')).status, 404)
  t.equal((await anybody.get(`/shows/${hamlet.id}`, { accept: 'text/csv' })).status, 406)

  for (const headers of [
    { 'x-api-key': 'rak_wrong' },
    { authorization: 'Bearer wrong' },
    { authorization: 'Basic YTpi' },
    { authorization: '' },
  ]) {
    for (const path of ['/shows', `/shows/${hamlet.id}`]) {
      const reply = await anybody.get(path, headers as Record<string, string>)
      t.equal(reply.status, 401, `${path} ${JSON.stringify(headers)}`)
      t.match(reply.headers.get('www-authenticate'), CHALLENGE)
    }
  }
  t.equal((await anybody.get('/shows', { 'x-api-key': '' })).status, 200, 'an empty field is none')
  const two = { 'x-api-key': member.key, authorization: `Bearer ${member.token}` }
  t.equal((await anybody.get('/shows', two)).status, 400)
  const { client } = await api.person('member', ['venues:read'])
  t.equal((await client.get('/shows')).status, 403, 'a key has its scopes')
  t.match((await member.client.get('/shows', { accept: 'text/csv' })).text, /rehearsal/, 'others export')
})

t.test('agents need credentials, whose tools read as their role does', async (t) => {
  t.equal((await sendMessage(api, {}, { jsonrpc: '2.0', id: 1, method: 'tools/list' })).status, 401)
  const agent = await connectAgent(t, api, { 'x-api-key': member.key })
  const { body } = await agent.callTool('shows_list')
  t.equal(body.data.length, 4)
})

t.test('with HIDE_FORBIDDEN a forbidden row is one that does not exist', async (t) => {
  const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, overrides)
  const ask = async (id: string) => {
    const { status, body } = await hiding.anybody.get(`/shows/${id}`)
    return [status, body.error.code, body.error.message.replace(id, 'ID')]
  }
  t.same(await ask(hidden.id), [404, 'RESOURCE_NOT_FOUND', 'There is no show with the id ID'])
  t.same(await ask(hidden.id), await ask(UNKNOWN_ID))
  t.equal((await hiding.anybody.get(`/shows/${hamlet.id}`)).status, 200)
  t.equal((await hiding.anybody.get('/tickets')).status, 401, 'what is not open stays 401')
})

t.test('requests count for their address, with their cost', async (t) => {
  const settings = { RATE_LIMIT: '50', RATE_LIMIT_ANONYMOUS: '10', TRUST_PROXY: '127.0.0.1' }
  const few = await testApp(t, settings, overrides)
  const [ada, bob] = [createClientFrom(few.base, '203.0.113.1'), createClientFrom(few.base, '203.0.113.2')]
  for (const [path, window] of [
    ['/shows', '200 10 9'],
    [`/shows/${hamlet.id}`, '200 10 8'],
    [`/shows/${hidden.id}`, '401 10 7'],
    ['/tickets', '401 10 6'],
    ['/shows?search=hamlet', '200 10 1'],
    ['/shows?page=1', '200 10 0'],
    ['/shows', '429 10 0'],
    ['/tickets', '429 10 0'],
  ] as const)
    t.equal(formatWindow(await ada.get(path)), window, path)
  t.ok(Number((await ada.get('/shows')).headers.get('retry-after')) >= 1)
  t.equal(formatWindow(await bob.get('/v2/shows')), '200 10 9', 'another address')
  const key = createClientFrom(few.base, '203.0.113.1', { 'x-api-key': member.key })
  t.equal(formatWindow(await key.get('/shows')), '200 50 49', 'a user of the same address')

  const [id] = await insertRows(database, 'open_venues', [{ name: 'x'.repeat(200_000), status: 'public' }])
  const reply = await bob.get(`/venues/${id}`)
  t.same([formatWindow(reply), reply.body.data?.name.length], ['200 10 5', 200_000], 'bytes count too')
})

for (const signup of [false, true]) {
  t.test(`the documents say so with sign-up ${signup ? 'allowed' : 'not allowed'}`, async (t) => {
    const settings = { ALLOW_SIGNUP: String(signup) }
    const documented = await testApp(t, settings, overrides)
    const user = { name: 'Ada', email: 'ada.open@example.com', password: 'twelve brass cogs, turning' }
    t.equal((await documented.anybody.get('/shows')).status, 200)
    t.equal((await documented.anybody.post('/users', user)).status, signup ? 201 : 401)
    t.equal((await documented.anybody.get('/users')).status, 401)

    for (const version of [1, 2]) {
      const document = (await documented.anybody.get(`/openapi/v${version}.json`)).body
      const { operations } = createReplyChecker(document)
      const open = operations.filter(({ declared }) =>
        declared.security?.some((scheme: object) => Object.keys(scheme).length === 0),
      )
      t.same(open.map(({ operationId }) => operationId).sort(), [
        ...(signup ? ['createUser'] : []),
        ...['getShow', 'getTalk', 'getVenue', 'listAllShow', 'listAllTalk'],
      ])
      const list = operations.find(({ operationId }) => operationId === 'listAllShow')?.declared
      t.same(list.security, [{ apiKey: [] }, { bearer: [] }, {}])
      const rows = 'with `status` public and `venue.status` public'
      t.match(list.description, `. Without credentials: ${rows}, but no export.`)
      t.ok(list.responses[401], 'of invalid credentials')
      const { description } = operations.find(({ operationId }) => operationId === 'getShow')?.declared ?? {}
      t.match(description, /By role: .+\. Without credentials: with /)
      t.match(document.info.description, /credentials are optional; invalid ones are 401 there too/)
      t.match(JSON.stringify(document), 'The cost. Read by: admin, manager, member. Written by')
    }
  })
}

t.test('the permission tables have a column for it where a collection is open', async (t) => {
  const tables = formatAccessTables(toCollections(served), app)
  t.match(tables, '| Resource | Operation | anonymous | member | manager | admin |')
  t.match(tables, '| shows | list, read | public and venue.status public | all | all | all |')
  t.match(tables, '| shows | create, replace, update, remove | none | all | all | all |')
  t.match(tables, '| venues | list, create, replace, update, remove | none | all | all | all |')
  t.match(tables, '| venues | read | public | all | all | all |')
  t.match(tables, '| users | create | sign-up | none | none | all |')
  t.match(tables, '| reports | `GET /reports/shows` | none | all | all | all |')
  t.match(formatAccessTables(listDefinitions()), '| Resource | Operation | member | manager | admin |')
  const page = await anybody.get('/docs/v1.json')
  t.match(page.text, '| shows | list, read | public and venue.status public |')
})

t.test('the start refuses a rule that no request without credentials can meet', async (t) => {
  const findMistake = async (access: ResourceDefinition['access'], operations = {}) => {
    const wrong = { ...showsResource, access: { ...showsResource.access, ...access }, operations }
    const others = served.filter((each) => each !== showsResource)
    return testApp(t, {}, { database, resources: [wrong, ...others] }).then(() => 'started', String)
  }
  const open = { ...all, anonymous: true }
  const only = 'without credentials, callers can only list, read, create'
  for (const verb of ['replace', 'update', 'remove'] as const)
    t.match(
      await findMistake({ [verb]: open }),
      `shows: access to ${verb} of anonymous is not possible: ${only}`,
    )
  t.match(
    await findMistake({}, { openings: { access: open } }),
    `shows: access to openings of anonymous is not possible: ${only}`,
  )
  const own = await findMistake({ read: { ...all, anonymous: [{ owner_id: CALLER }] } })
  t.match(own, 'shows: access to read of anonymous cannot name the caller')
})
