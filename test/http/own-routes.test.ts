/** A plain Fastify route with a `schema` of its own has the validation and the errors of the resources. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { APP_SECRET, createClient, UNKNOWN_ID } from '../helpers/app.ts'
import { createSharedDatabase, testFolder } from '../helpers/database.ts'
import { WITHOUT_LIMITS } from '../helpers/process.ts'

const schema = {
  summary: 'Count something',
  params: Type.Object({ id: Type.String({ format: 'uuid' }) }),
  querystring: Type.Object(
    { size: Type.Optional(Type.Integer({ maximum: 10 })) },
    { additionalProperties: false },
  ),
  headers: Type.Object({ 'x-size': Type.Optional(Type.Integer()) }),
  body: Type.Object(
    {
      count: Type.Integer({ minimum: 1, format: 'int64' }),
      currency: Type.Optional(Type.String({ format: 'iso-4217' })),
    },
    { additionalProperties: false },
  ),
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

const config = readConfig({ ...WITHOUT_LIMITS, APP_SECRET, DATA_DIR: testFolder(t) })
const database = await createSharedDatabase(t)
const app = await buildApp(config, { database })
t.teardown(() => app.close())
app.post('/api/v1/own/:id', { schema, config: { access: 'public' } }, async ({ body, query }) => ({
  body,
  query,
}))
app.get('/api/v1/hidden', { schema: { hide: true }, config: { access: 'public' } }, async () => ({}))
const { get, post } = createClient(await app.listen({ port: 0 }), {})
const path = `/api/v1/own/${UNKNOWN_ID}`

t.test('a valid request reaches the handler, with numbers in its query', async (t) => {
  const { status, body } = await post(`${path}?size=3`, { count: 2 ** 40, currency: 'EUR' })
  t.match([status, body], [200, { body: { count: 2 ** 40, currency: 'EUR' }, query: { size: 3 } }])
})

t.test(
  'all violations of a body are reported together with 422, and nothing is converted or dropped',
  async (t) => {
    const { status, body } = await post(path, { count: '2', currency: 'EURO', colour: 'red' })
    t.equal(status, 422)
    t.equal(body.error.code, 'VALIDATION_ERROR')
    const details: { field: string; code: string }[] = body.error.details
    t.same(details.map(({ field, code }) => `${field} ${code}`).sort(), [
      'colour UNKNOWN_FIELD',
      'count INVALID_TYPE',
      'currency INVALID_FORMAT',
    ])
  },
)

t.test('a wrong query is 400, a wrong path 404, a wrong header field 400', async (t) => {
  const query = await post(`${path}?size=11&colour=red`, { count: 1 })
  t.match(
    [query.status, query.body.error],
    [400, { code: 'VALIDATION_ERROR', details: [{ field: /./ }, { field: /./ }] }],
  )
  t.equal((await post('/api/v1/own/1', { count: 1 })).status, 404)
  const header = await post(path, { count: 1 }, { 'x-size': 'big' })
  t.match([header.status, header.body.error.code], [400, 'INVALID_REQUEST'])
})

t.test('the document of its version has it with its schema, unless the schema has `hide`', async (t) => {
  const { body: document } = await get('/openapi/v1.json')
  const { post: operation } = document.paths['/api/v1/own/{id}']
  t.match(operation, { operationId: 'postOwnId', summary: 'Count something', security: [] })
  const parameters: { in: string; name: string; required?: boolean }[] = operation.parameters
  t.same(
    parameters.map(({ in: location, name, required = false }) => [location, name, required]),
    [
      ['path', 'id', true],
      ['query', 'size', false],
      ['header', 'x-size', false],
    ],
  )
  const { properties } = operation.requestBody.content['application/json'].schema
  t.match(properties, { count: { type: 'integer', minimum: 1 }, currency: { pattern: '^[A-Z]{3}$' } })
  t.ok(operation.responses[422])
  t.equal(document.paths['/api/v1/hidden'], undefined)
  const { body: other } = await get('/openapi/v2.json')
  t.equal(other.paths['/api/v1/own/{id}'], undefined)
})

t.test('a route with a wrong schema stops the start, before a request compiles it', async (t) => {
  for (const [part, message] of [
    [{ body: Type.Object({ day: Type.String({ format: 'weekday' }) }) }, /unknown format "weekday"/],
    [
      { body: Type.Object({ days: Type.Array(Type.String({ maxLenght: 3 })) }) },
      /unknown keyword: "maxLenght"/,
    ],
    [{ querystring: Type.Object({ day: Type.String({ pattern: '(' }) }) }, /Invalid regular expression/],
    [{ body: Type.Object({ day: Type.String({ minLength: -1 }) }) }, /minLength must be >= 0/],
    [{ response: { 200: { type: 'day' } } }, /type must be equal to one of the allowed values/],
  ] as const) {
    const own = await buildApp({ ...config, DATA_DIR: testFolder(t) }, { database })
    t.teardown(() => own.close())
    own.post('/api/v1/wrong', { schema: part, config: { access: 'public' } }, async () => ({}))
    await t.rejects(async () => own.ready(), { message })
  }
})
