/** Routes of one's own: validation, access by roles and scopes, conditions on rows, Idempotency-Key, documents. */
import { Type } from '@sinclair/typebox'
import { eq } from 'drizzle-orm'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../src/resources.ts'
import { common, text } from '../../database/src/columns.ts'
import { users } from '../../database/src/user-tables.ts'
import { formatAccessTables } from '../../docs/src/openapi/access-tables.ts'
import { operation } from '../../resources/src/routes/operation.ts'
import type { OwnRoutes } from '../../resources/src/routes/own-routes.ts'
import { define } from '../../resources/test/collection/adopted.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { getViolations, listViolations } from '../../testing/helpers/replies.ts'
import { createTable, insertRows } from '../../testing/helpers/rows.ts'
import { serve } from '../../testing/helpers/serve.ts'
import { findAccessFaults, findOwnAccess } from '../../testing/src/own-access.ts'
import { createReplyChecker } from '../../testing/src/reply-checker.ts'
import { apiError, invalidBody } from '../src/errors/errors.ts'
import { CALLER } from '../src/rules/rules.ts'
import { exampleId, Integer, Text } from '../src/schemas/types.ts'

const visits = pgTable('visits', {
  ...common(),
  user_id: uuid()
    .notNull()
    .references(() => users.id),
  status: text().notNull(),
})

const readable = { admin: true, member: [{ user_id: CALLER }, { status: 'public' }] } as const
const visitsResource = serve(
  define(
    {
      name: 'visits',
      singular: 'Visit',
      table: visits,
      fields: {
        user_id: Text({ format: 'uuid', examples: [exampleId] }),
        status: Text({ maxLength: 10, examples: ['open'] }),
      },
    },
    {
      access: { list: readable, read: readable, create: { admin: true } },
    },
  ),
  {
    create: {
      async run({ store, body }) {
        if (body.status === 'suspend')
          await store.of(users).change(String(body.user_id), { status: 'suspended' })
        return store.insert(body)
      },
    },
    actions: {
      suspensions: {
        operationId: 'suspendVisitor',
        summary: 'Suspend a visitor',
        description: 'Suspends.',
        access: { admin: true },
        async run({ store: { connection }, current: visit }) {
          const owner = eq(users.id, String(visit.user_id))
          await connection.update(users).set({ status: 'suspended' }).where(owner)
          return visit
        },
      },
    },
  },
)

const visitCount = Integer(0, 1e6, { description: 'Visits', examples: [3] })
const Count = Type.Object({ count: visitCount }, { title: 'Count' })
const Summary = Type.Object({ count: visitCount }, { title: 'Summary' })
const closed = { additionalProperties: false }
const batchFields = {
  count: Integer(1, 10, { description: 'How many', examples: [2] }),
  status: Type.String({ maxLength: 20 }),
}
const Batch = Type.Object(batchFields, { title: 'BatchCreate', ...closed })
const params = Type.Object({ id: Text({ format: 'uuid', examples: [exampleId] }) })
const Currency = Type.Optional(Type.String({ format: 'iso-4217' }))
/** What plain Fastify offers for a schema. */
const plain = {
  summary: 'Return the request',
  params,
  query: Type.Object({ size: Type.Optional(Type.Integer({ maximum: 10 })) }, closed),
  headers: Type.Object({ 'x-size': Type.Optional(Type.Integer()) }),
  body: Type.Object({ count: Type.Integer({ minimum: 1, format: 'int64' }), currency: Currency }, closed),
  response: {
    200: Type.Object({
      body: Type.Object({
        count: Type.Unsafe<number | null>({ type: ['integer', 'null'], format: 'int64' }),
        currency: Type.Optional(Type.String()),
      }),
      query: Type.Object({
        size: Type.Optional(Type.Union([Type.Integer({ format: 'int32' }), Type.Null()])),
      }),
    }),
  },
}

let runs = 0
const writers = { roles: ['admin'], scope: 'reports:write' } as const

const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over visits',
  scopes: ['reports:read', 'reports:write'],
  async plugin(app) {
    app.post(
      '/reports/plain/:id',
      operation({ ...plain, access: 'public', run: async ({ body, query }) => ({ body, query }) }),
    )
    app.get('/reports/hidden', operation({ hide: true, access: 'public', run: async () => ({}) }))
    app.get(
      '/reports/lines',
      operation({
        hide: true,
        access: 'public',
        async run({ query: { csv }, reply }) {
          if (csv) reply.type('text/csv')
          return 'a,b\n1,2\n'
        },
        query: Type.Object({ csv: Type.Optional(Type.Boolean()) }, closed),
      }),
    )
    const response = { 200: Count }
    app.get(
      '/reports/visits',
      operation({
        ...{ access: 'visits:list', summary: 'Count visits', description: 'Counts.', response },
        run: async ({ getReadable }) => ({ count: await app.database.$count(visits, getReadable(visits)) }),
      }),
    )
    const readers = { roles: ['admin', 'manager'], scope: 'reports:read' } as const
    app.get(
      '/reports/all',
      operation({
        ...{ access: readers, summary: 'Count all visits', response },
        run: async () => ({ count: await app.database.$count(visits) }),
      }),
    )
    app.post(
      '/reports/batches',
      operation({
        ...{ access: writers, operationId: 'createBatch', summary: 'Create visits' },
        body: Batch,
        response: { 201: Count },
        idempotent: true,
        async run({ actor, body, store }) {
          runs += 1
          for (let n = 0; n < body.count; n++) {
            await store.of(visits).create({ user_id: actor.userId, status: body.status })
          }
          if (body.status === 'refuse') throw apiError('RESOURCE_CONFLICT', { message: 'No visits today' })
          return { count: await store.connection.$count(visits, eq(visits.status, body.status)) }
        },
      }),
    )
    const query = Type.Object({
      kind: Type.Optional(Text({ description: 'The kind', examples: ['open'] })),
    })
    app.post(
      '/reports/visits/:id/counts',
      operation({
        ...{ access: writers, summary: 'Count runs', params, query, response, idempotent: true },
        async run() {
          runs += 1
          return { count: runs }
        },
      }),
    )
    app.post(
      '/reports/summaries',
      operation({
        ...{ access: writers, type: 'summaries', summary: 'Summarize visits', idempotent: true },
        body: Batch,
        response: { 201: Summary },
        async run({ body }) {
          runs += 1
          if (body.status === 'refuse')
            throw invalidBody([{ field: 'status', message: 'is refused', code: 'INVALID_VALUE' }])
          return { count: body.count }
        },
      }),
    )
    const suspend = { access: writers, hide: true, params } as const
    app.post(
      '/reports/suspensions/:id',
      operation({
        ...suspend,
        idempotent: true,
        async run({ params, store }) {
          await store.of(users).change(params.id, { status: 'suspended' })
          return {}
        },
      }),
    )
    app.put(
      '/reports/suspensions/:id',
      operation({
        ...suspend,
        async run({ params }) {
          await app.database.update(users).set({ status: 'suspended' }).where(eq(users.id, params.id))
          return {}
        },
      }),
    )
  },
}

const database = await createSharedDatabase(t)
await createTable(database, visits)
const api = await testApp(t, {}, { database, resources: [...resources, visitsResource], routes: [reports] })
const { admin, anybody, person } = api
const [ada, bob, manager] = [await person('member'), await person('member'), await person('manager')]
const [visit = ''] = await insertRows(database, 'visits', [
  { user_id: ada.id, status: 'open' },
  { user_id: ada.id, status: 'open' },
  { user_id: bob.id, status: 'open' },
  { user_id: bob.id, status: 'public' },
])

const count = async (by: Client, path = '/reports/visits') => (await by.get(path)).body.count
const post = (by: Client, body: Json, key?: string) =>
  by.post('/reports/batches', body, key === undefined ? {} : { 'idempotency-key': key })

t.test(
  'a request is validated by the schemas of its route, and nothing is converted or dropped',
  async (t) => {
    const path = `/reports/plain/${UNKNOWN_ID}`
    const sent = { count: 2 ** 40, currency: 'EUR' }
    const { status, body } = await anybody.post(`${path}?size=3`, sent)
    t.match([status, body], [200, { body: sent, query: { size: 3 } }], 'numbers in the query')
    const wrong = { count: '2', currency: 'EURO', colour: 'red' }
    const body422 = ['colour UNKNOWN_FIELD', 'count INVALID_TYPE', 'currency INVALID_FORMAT']
    for (const [url, sent, headers, status, code, violations] of [
      [path, wrong, {}, 422, 'VALIDATION_ERROR', body422],
      [
        ...[`${path}?size=11&colour=red`, { count: 1 }, {}, 400, 'VALIDATION_ERROR'],
        ['colour UNKNOWN_PARAMETER', 'size OUT_OF_RANGE'],
      ],
      ['/reports/plain/1', { count: 1 }, {}, 404, 'RESOURCE_NOT_FOUND', []],
      [path, { count: 1 }, { 'x-size': 'big' }, 400, 'INVALID_REQUEST', ['x-size INVALID_TYPE']],
    ] as const) {
      const reply = await anybody.post(url, sent, headers)
      t.same([reply.status, reply.body.error.code, getViolations(reply)], [status, code, violations], url)
    }
  },
)

t.test('every route refuses parameters that it does not declare, and does nothing', async (t) => {
  runs = 0
  const { bearer } = await person('admin')
  /** Hidden ones, and those of the documents. */
  const routes = ['POST', 'PUT'].map((method) => ({
    method,
    path: `/api/v1/reports/suspensions/${ada.id}`,
    hasDryRun: false,
  }))
  for (const version of [1, 2]) {
    const { operations } = createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body)
    const versioned = operations.filter(({ path }) => path.startsWith(`/api/v${version}/`))
    for (const { method, path, declared } of versioned) {
      const hasDryRun = /dry_?run/i.test(JSON.stringify(declared.parameters ?? []))
      routes.push({ method, path: path.replace(/\{\w+\}/g, visit), hasDryRun })
    }
  }
  t.ok(routes.some(({ path }) => path === `/api/v2/visits/${visit}/suspensions`))
  for (const { method, path, hasDryRun } of routes) {
    for (const [query, violation] of [
      ['x=1', 'x UNKNOWN_PARAMETER'],
      ['x=1&x=2', 'x UNKNOWN_PARAMETER'],
      hasDryRun ? ['dry_run=maybe', 'dry_run INVALID_TYPE'] : ['dry_run=true', 'dry_run UNKNOWN_PARAMETER'],
    ]) {
      const body = /^P/.test(method) ? { body: {} } : {}
      const reply = await bearer.call(method, `${path}?${query}`, body)
      const found = listViolations(reply).includes(String(violation))
      t.same([reply.status, found], [400, true], `${method} ${path}?${query}: ${reply.text}`)
    }
  }
  t.equal(runs, 0)
  t.equal((await anybody.post('/reports/batches?x=1', {})).status, 401, 'the credentials come first')
  t.equal((await ada.client.post('/reports/batches?x=1', {})).status, 403, 'and the role')
  t.equal((await ada.client.get('/users/me')).status, 200, 'ada is not suspended')
})

t.test('a text is text/plain, or of the type that the code sets', async (t) => {
  for (const [path, type] of [
    ['/reports/lines', 'text/plain'],
    ['/reports/lines?csv=true', 'text/csv'],
  ] as const) {
    const { headers, status, text } = await anybody.get(path)
    t.same([status, text], [200, 'a,b\n1,2\n'], path)
    t.ok(headers.get('content-type')?.startsWith(type), path)
  }
})

t.test('an aggregate has only the rows that its caller may read', async (t) => {
  t.same([await count(ada.client), await count(bob.bearer), await count(admin)], [3, 2, 4])
  t.equal(await count(ada.client, '/api/v2/reports/visits'), 3)
  t.equal((await manager.client.get('/reports/visits')).status, 403, 'a role that the rule does not name')
  const { client } = await person('member', ['reports:read'])
  t.equal((await client.get('/reports/visits')).status, 403, 'a key without the scope of the collection')
  t.equal((await anybody.get('/reports/visits')).status, 401)
})

t.test('roles and a scope decide on a route without a rule', async (t) => {
  const { bearer } = await person('admin')
  for (const [by, status] of [
    [bearer, 200],
    [manager.bearer, 200],
    [ada.bearer, 403],
    [(await person('admin', ['reports:read'])).client, 200],
    [(await person('admin', ['reports:write'])).client, 200],
    [(await person('admin', ['visits:read'])).client, 403],
  ] as const)
    t.equal((await by.get('/reports/all')).status, status)
  const made = await bearer.post('/api-keys', { name: 'a', scopes: ['reports:read'] })
  t.equal(made.status, 201, made.text)
  t.equal((await admin.delete('/reports/all')).status, 405)
})

t.test('a user whom own code suspends is refused immediately, though the credential is cached', async (t) => {
  const ways: Record<string, (id: string) => Promise<Reply>> = {
    'the store of a route': (id) => admin.post(`/reports/suspensions/${id}`, {}),
    'the database of a route': (id) => admin.put(`/reports/suspensions/${id}`, {}),
    'the store of an action': (user_id) => admin.post('/visits', { user_id, status: 'suspend' }),
    async 'the connection of an operation'(id) {
      await database.run('update visits set user_id = $1 where id = $2', [id, visit])
      return admin.post(`/visits/${visit}/suspensions`, {})
    },
  }
  for (const [way, suspend] of Object.entries(ways)) {
    const { id, client, bearer } = await person('member')
    const statuses = async () => [
      (await client.get('/users/me')).status,
      (await bearer.get('/users/me')).status,
    ]
    t.same(await statuses(), [200, 200], way)
    const reply = await suspend(id)
    t.ok(reply.status < 300, `${way}: ${reply.text}`)
    t.same(await statuses(), [401, 401], way)
  }
})

t.test('with an Idempotency-Key, the handler runs once, in one transaction', async (t) => {
  runs = 0
  const first = await post(admin, { count: 2, status: 'a' }, 'batch-1')
  const again = await post(admin, { count: 2, status: 'a' }, 'batch-1')
  t.same([first.status, again.status, first.body, runs], [201, 201, { count: 2 }, 1])
  t.equal(again.text, first.text)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  for (const [count, status, key, expected] of [
    // Another body, an invalid key, an invalid body, a refusal, and a value that the schema of the resource refuses.
    [3, 'a', 'batch-1', 422],
    [1, 'a', 'a b', 400],
    [0, 'a', 'batch-2', 422],
    [1, 'refuse', 'batch-2', 409],
    [1, 'much too long', undefined, 422],
    [1, 'b', undefined, 201],
  ] as const)
    t.equal((await post(admin, { count, status }, key)).status, expected, `${count} ${status}`)
  t.equal(await database.$count(visits, eq(visits.status, 'refuse')), 0, 'a failure rolls back')
})

t.test('with a type, bodies, responses and errors have the envelope of the version', async (t) => {
  runs = 0
  const fields = { count: 2, status: 'a' }
  const typed = (attributes: Json, type = 'summaries') => ({ data: { type, attributes } })
  for (const [path, body, data] of [
    ['/v1/reports/summaries', fields, { count: 2 }],
    ['/v2/reports/summaries', fields, { type: 'summaries', attributes: { count: 2 } }],
    ['/v2/reports/summaries', typed(fields), { type: 'summaries', attributes: { count: 2 } }],
  ] as const) {
    const reply = await admin.post(path, body)
    t.same([reply.status, reply.body.data, Object.keys(reply.body)], [201, data, ['data', 'meta']])
  }
  for (const [path, body, status, violation] of [
    ['/v1/reports/summaries', { ...fields, count: 0 }, 422, 'count OUT_OF_RANGE'],
    ['/v1/reports/summaries', { ...fields, status: 'refuse' }, 422, 'status INVALID_VALUE'],
    ['/v2/reports/summaries', typed({ ...fields, count: 0 }), 422, 'data.attributes.count OUT_OF_RANGE'],
    [
      '/v2/reports/summaries',
      typed({ count: 1, status: 'refuse' }),
      422,
      'data.attributes.status INVALID_VALUE',
    ],
    ['/v2/reports/summaries', typed(fields, 'visits'), 409, 'data.type INVALID_VALUE'],
  ] as const) {
    const reply = await admin.post(path, body)
    t.same([reply.status, getViolations(reply)], [status, [violation]], path)
  }
  const key = { 'idempotency-key': 'summary-1' }
  const [first, again] = [
    await admin.post('/v2/reports/summaries', typed(fields), key),
    await admin.post('/v2/reports/summaries', typed(fields), key),
  ]
  t.same([again.text, again.headers.get('idempotency-replayed'), runs], [first.text, 'true', 6])
  const { paths, components } = (await anybody.get('/openapi/v2.json')).body
  const { requestBody, responses } = paths['/api/v2/reports/summaries'].post
  t.match(JSON.stringify([requestBody, responses[201], components.schemas]), '"SummaryAttributes"')
  t.same(Object.keys(requestBody.content['application/json'].examples), ['typed', 'flat'])
})

t.test('an Idempotency-Key holds for the canonical path and its declared parameters', async (t) => {
  const id = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4eaf'
  const path = `/reports/visits/${id}/counts`
  const send = async (path: string, key: string) => {
    const { status, headers } = await admin.post(path, {}, { 'idempotency-key': key })
    return headers.has('idempotency-replayed') ? 'replayed' : status
  }
  runs = 0
  for (const [key, expected, ...addresses] of [
    ['path-1', 200, path, `/v2${path}`, path.replace(id, bob.id)],
    ['path-1', 'replayed', `${path}?`, `${path}/`, path.replace(id, id.toUpperCase())],
    ['path-1', 'replayed', path.replace(id, `%30${id.slice(1)}`), `/api${path}`, `/v1${path}`],
    ['path-1', 'replayed', `/api/v1/%72eports${path.slice('/reports'.length)}`],
    ['path-1', 422, `${path}?kind=open`],
    ['path-2', 200, `${path}?kind=open`],
    ['path-2', 'replayed', `${path}?%6Bind=%6Fpen`],
  ] as const) {
    for (const address of addresses) t.equal(await send(address, key), expected, address)
  }
  t.equal(runs, 4, 'another version and another id have keys of their own')
})

t.test('of concurrent requests with one key, one runs', async (t) => {
  runs = 0
  const replies = await Promise.all([1, 2, 3].map(() => post(admin, { count: 1, status: 'c' }, 'batch-3')))
  t.equal(runs, 1)
  t.ok(replies.every(({ status }) => status === 201 || status === 409))
  t.equal(await database.$count(visits, eq(visits.status, 'c')), 1)
})

t.test('the documents have it with its access, its key and examples', async (t) => {
  const { body: document } = await anybody.get('/openapi/v2.json')
  t.ok(document.tags.some(({ name }: Json) => name === 'reports'))
  t.match(document.paths['/api/v2/reports/visits'].get, {
    tags: ['reports'],
    description:
      /^Counts\.\n\nAn API key needs the scope `visits:read`.* member: the caller's own, or with `status` public/,
    'x-required-scopes': ['visits:read'],
    responses: { 200: { content: { 'application/json': { examples: Object } } }, 403: Object },
  })
  const { post: batch } = document.paths['/api/v2/reports/batches']
  t.match(batch, {
    operationId: 'createBatch',
    description: /By role: admin: all; manager: none; member: none\.$/,
  })
  t.same(batch['x-required-scopes'], ['reports:write'])
  t.ok(batch.parameters.some(({ $ref }: Json) => $ref?.endsWith('/IdempotencyKey')))
  t.ok(batch.responses[409])
  t.match(document.components.examples['Count.whole'], { value: { count: 3 } })
  t.match(JSON.stringify(document.components.schemas.Scope ?? document), 'reports:read')

  const { post: operation } = document.paths['/api/v2/reports/plain/{id}']
  t.match(operation, { operationId: 'postReportsPlainId', summary: 'Return the request' })
  t.same(operation.security, [])
  const parameters: { in: string; name: string; required?: boolean }[] = operation.parameters
  t.same(
    parameters.map(({ in: place, name, required = false }) => `${place} ${name} ${required}`),
    ['path id true', 'query size false', 'header x-size false'],
  )
  const { properties } = operation.requestBody.content['application/json'].schema
  t.match(properties, { count: { type: 'integer', minimum: 1 }, currency: { pattern: '^[A-Z]{3}$' } })
  t.ok(operation.responses[422])
  t.equal(document.paths['/api/v2/reports/hidden'], undefined)
})

t.test(
  'docs/callers/permissions.md has a row for it, and documented-access.test.ts tries each role on it',
  async (t) => {
    const table = formatAccessTables([visitsResource.collection], api.app)
    t.match(table, '| visits | list, read | own or public | none | all |')
    t.match(table, '| reports | `GET /reports/visits` | own or public | none | all |')
    t.match(table, '| reports | `GET /reports/all` | none | all | all |')
    t.match(table, '| reports | `POST /reports/batches` | none | none | all |')
    t.equal(table.match(/reports\/all/g)?.length, 1, 'once for all versions')

    const { operations } = createReplyChecker((await anybody.get('/openapi/v2.json')).body)
    const ownOperations = operations.flatMap((operation) => {
      const access = findOwnAccess(api.app, operation)
      return access ? [{ operation, access }] : []
    })
    const ids = ownOperations.map(({ operation }) => operation.operationId)
    const ofReports = [
      'getReportsAll',
      'getReportsVisits',
      'postReportsPlainId',
      'postReportsSummaries',
      'postReportsVisitsIdCounts',
    ]
    const restores = ['restorePost', 'restoreProduct', 'restoreUserProfile']
    t.same(ids.sort(), ['createBatch', 'createWebhookSecret', ...ofReports, ...restores, 'suspendVisitor'])
    for (const { operation, access } of ownOperations)
      t.same(await findAccessFaults(api, operation, access), [])

    const found = operations.find(({ operationId }) => operationId === 'getReportsAll')
    if (!found) throw new Error('The document lacks the operation')
    const faults = await findAccessFaults(api, found, 'visits:list')
    t.match(faults.join('\n'), /member: 403\n/, 'a route with other rules than expected is found')
  },
)

t.test('a route with an Idempotency-Key on a GET, or with a wrong schema, stops the start', async (t) => {
  const day = Type.Object({ day: Type.String({ format: 'weekday' }) })
  const bare = { access: 'public', run: async () => ({}) } as const
  for (const [route, message] of [
    [operation({ ...bare, idempotent: true }), /for POST and PATCH/],
    [operation({ ...bare, query: day }), /unknown format "weekday"/],
    [operation({ ...bare, response: { 200: { type: 'day' } } }), /type must be equal to one/],
    [
      { config: { access: 'public' }, handler: async () => ({}) },
      /write app.get\('\/reports\/bare', operation/,
    ],
  ] as const) {
    const plugin: OwnRoutes['plugin'] = async (app) => void app.get('/reports/bare', route)
    await t.rejects(testApp(t, {}, { database, routes: [{ ...reports, plugin }] }), { message })
  }
})
