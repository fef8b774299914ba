/** The OpenAPI documents: complete, described, and as strict as the server. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { definitions } from '../../../testing/helpers/definitions.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import {
  Product,
  productsResource,
  userProfilesResource as userProfiles,
  usersResource as users,
  versions,
} from '../../../testing/helpers/shop.ts'
import { createReplyChecker } from '../../../testing/src/reply-checker.ts'

const PUBLIC_URL = 'https://api.shop.test/v'
const { admin, anybody } = await testApp(t, { PUBLIC_URL })

/** Bytes of a document without white space: what all resources share, with accounts, each one, and its aggregates. */
const MAX_DOCUMENT_BYTES =
  85_000 + 28_000 * definitions.length + 6_000 * definitions.filter(({ aggregates }) => aggregates).length

/** The resources that can include others. */
const related = definitions.filter(({ relations }) => Object.keys(relations).length > 0)

/** The codes of the response `default`. */
const OTHER_CODES = [
  ...['METHOD_NOT_ALLOWED', 'NOT_ACCEPTABLE', 'REQUEST_TIMEOUT', 'PAYLOAD_TOO_LARGE', 'URI_TOO_LONG'],
  ...['UNSUPPORTED_MEDIA_TYPE', 'PRECONDITION_REQUIRED', 'HEADERS_TOO_LARGE', 'INTERNAL_SERVER_ERROR'],
  ...['NOT_IMPLEMENTED', 'BAD_GATEWAY'],
]

const PRODUCT = { sku: 'A', name: 'A', price_amount: 1 }
/** Bodies that both the documents and the server refuse. */
const REFUSED: readonly [name: string, body: Json][] = [
  ['products', { ...PRODUCT, name: 'a\u0007b' }],
  ['products', { ...PRODUCT, description: 'a\rb' }],
  ['products', { ...PRODUCT, currency: 'usd' }],
  ['products', { ...PRODUCT, colour: 'red' }],
  ['user-profiles', { website_url: 'http://example.com' }],
  ['user-profiles', { website_url: 'https://é.example' }],
  ['user-profiles', { time_zone: '+05:00' }],
  ['user-profiles', { locale: 'en_GB' }],
  ['orders', { items: [], status: 'pending' }],
  ['orders', { items: [{ product_id: 'resource-api', quantity: 1 }] }],
  ['tokens', { grant_type: 'password', email: 'ada@example.com', password: 'a', scope: '*' }],
  ['tokens', { grant_type: 'refresh_token', refresh_token: 'a', email: 'ada@example.com' }],
]

type Visited = { path: string; schema: Json }
const getPaths = (visited: readonly Visited[]) => visited.map(({ path }) => path)

const replies = await Promise.all([1, 2].map((version) => anybody.get(`/openapi/v${version}.json`)))

for (const [i, reply] of replies.entries()) {
  const version = i + 1
  const document = reply.body
  const { schemas, parameters } = document.components
  const { operations, resolve, faults } = createReplyChecker(document)

  /** Returns a schema with all schemas in it, including those that it refers to. */
  function walk(schema: Json, path: string, seen = new Set<Json>()): Visited[] {
    const resolved = resolve(schema)
    if (seen.has(resolved)) return []
    seen.add(resolved)
    const lists = ['properties', 'oneOf', 'anyOf', 'allOf'].map((name) => resolved[name] ?? {})
    const single = { items: resolved.items, additional: resolved.additionalProperties }
    const nested = [...lists, single]
      .flatMap((each) => Object.entries<Json>(each))
      .filter(([, each]) => typeof each === 'object')
    const own = [{ path, schema }, ...(schema === resolved ? [] : [{ path, schema: resolved }])]
    return [...own, ...nested.flatMap(([name, each]) => walk(each, `${path}.${name}`, seen))]
  }

  t.test(`version ${version} has the names that client generators need, and nothing internal`, async (t) => {
    const ids = operations.map(({ operationId }) => operationId)
    for (const { singular, plural } of toCollections(resources)) {
      const names = ['get', 'create', 'replace', 'update', 'delete'].map((verb) => verb + singular)
      for (const name of [...names, `list${plural}`]) t.ok(ids.includes(name), name)
      for (const suffix of ['', 'Page', 'Create', 'Replace', 'Update'])
        t.ok(schemas[`${singular}${suffix}`], `${singular}${suffix}`)
    }
    t.same(Object.keys(document.components.securitySchemes), ['apiKey', 'bearer'])
    t.same(document.servers, [{ url: PUBLIC_URL }])
    const tags = document.tags.map(({ name }: Json) => name)
    t.ok(document.tags.every(({ description }: Json) => description))
    t.same([...new Set(operations.flatMap(({ declared }) => declared.tags))].sort(), tags.sort())
    t.match(document.paths, { '/livez': { get: Object }, '/readyz': { get: Object } })
    t.notMatch(reply.text, /"x-(?!disabled|required-scopes|codeSamples|tagGroups|import|export)|OPTIONS/)
    t.notMatch(reply.text, /"(?:readOnly|writeOnly)"/)
    const size = Buffer.byteLength(JSON.stringify(document))
    t.ok(size < MAX_DOCUMENT_BYTES, `${size} bytes are fewer than ${MAX_DOCUMENT_BYTES}`)
  })

  t.test(`version ${version}: the integers beyond 32 bits have the format int64, no others do`, async (t) => {
    const integers: [path: string, schema: Json][] = []
    const collect = (value: Json, path: string) => {
      if (typeof value !== 'object' || value === null) return
      if ([value.type].flat().includes('integer')) integers.push([path, value])
      for (const [name, each] of Object.entries(value)) collect(each, `${path}/${name}`)
    }
    collect({ paths: document.paths, webhooks: document.webhooks, components: document.components }, '')
    for (const [path, { format, maximum = Number.POSITIVE_INFINITY }] of integers)
      t.equal(format, maximum > 2 ** 31 - 1 ? 'int64' : undefined, path)
    const large = integers.filter(([, { format }]) => format).map(([path]) => path)
    for (const path of [
      'schemas/OffsetPagination/properties/total',
      `schemas/Event${version === 1 ? '' : 'Attributes'}/properties/position`,
      'headers/X-RateLimit-Reset/schema',
      'parameters/ProductPriceAmountMin/schema',
    ])
      t.ok(large.includes(`/components/${path}`), path)
  })

  t.test(`version ${version}: bodies that the schemas refuse are 422`, async (t) => {
    const getSchema = (name: string) =>
      document.paths[`/api/v${version}/${name}`].post.requestBody.content['application/json'].schema
    for (const [name, members] of REFUSED) {
      const enveloped = { data: { type: name, attributes: members } }
      for (const body of version === 1 ? [members] : [members, enveloped]) {
        const text = JSON.stringify(body)
        t.not(faults(getSchema(name), body).length, 0, text)
        t.equal((await admin.post(`/api/v${version}/${name}`, body)).status, 422, text)
      }
    }
    const lines = { ...PRODUCT, sku: `LINES-${version}`, description: 'a\n\tb\r\nc' }
    t.same(faults(getSchema('products'), lines), [])
    t.equal((await admin.post(`/api/v${version}/products`, lines)).status, 201)
  })

  t.test(
    `version ${version}: the resources of responses are whole, and relations are optional`,
    async (t) => {
      for (const { singular: name, fields = {} } of [...definitions, { singular: 'Token' }]) {
        for (const part of version === 1 ? [name] : [name, `${name}Attributes`]) {
          const { required, properties } = schemas[part]
          const whole = Object.keys(properties).filter((field) => !fields[field]?.read)
          t.same([...required].sort(), whole.sort(), part)
        }
      }
      for (const { singular: name } of related) {
        const [whole, { required, properties }] = schemas[`${name}WithRelations`].allOf
        t.same(whole, { $ref: `#/components/schemas/${name}` })
        t.equal(required, undefined)
        const described = version === 2 ? schemas[`${name}Relationships`].properties : properties
        for (const relations of [properties, described]) t.not(Object.keys(relations).length, 0)
        for (const [relation, { description }] of Object.entries<Json>(described))
          t.equal(description, `Present only with \`include=${relation}\``)
      }
      t.match(parameters.ProductFields.description, /Narrows the response/)
    },
  )

  t.test(`version ${version}: shared parts are components, and each is described`, async (t) => {
    for (const name of ['UserRole', 'UserStatus', 'ProductStatus', 'OrderStatus', 'Scope'])
      t.ok(schemas[name]?.enum, name)
    t.match(schemas, {
      OrderCreate: { properties: { status: { enum: ['pending'] } } },
      Error: undefined,
      Grant: { discriminator: { propertyName: 'grant_type' }, oneOf: { length: 2 } },
      Pagination: { oneOf: { length: 2 } },
    })
    const inline = Object.values<Json>(document.paths).flatMap((methods) =>
      Object.values<Json>(methods).flatMap(({ parameters: own = [] }) =>
        own.filter(({ $ref }: Json) => !$ref),
      ),
    )
    t.same(inline, [])
    const named = Object.entries<Json>(schemas)
    const isDescribed = (schema: Json): boolean =>
      Boolean(schema.description ?? schema.title) ||
      (schema.$ref !== undefined && isDescribed(resolve(schema)))
    const components = named.map(([path, schema]) => ({ path, schema }))
    const members = named.flatMap(([name, component]) =>
      walk(component, name).flatMap(({ path, schema: { properties = {} } }) =>
        Object.entries<Json>(properties).map(([member, schema]) => ({ path: `${path}.${member}`, schema })),
      ),
    )
    t.ok(members.length > 200)
    t.same(getPaths([...components, ...members].filter(({ schema }) => !isDescribed(schema))), [])
  })

  t.test(`version ${version}: each error status has a schema with its codes`, async (t) => {
    const known: string[] = resolve(schemas.ErrorObject.properties.code).enum
    const shown = new Set<string>()
    for (const { operationId, declared } of operations)
      for (const [status, response] of Object.entries<Json>(declared.responses)) {
        if (status < '400' || status === 'default') continue
        for (const { schema } of Object.values<Json>(resolve(response).content)) {
          t.match(schema.$ref, /^#\/components\/schemas\/(?!ApiError$)\w+Error$/, `${operationId} ${status}`)
          for (const each of resolve(schema).properties.error.allOf[1].properties.code.enum) shown.add(each)
        }
      }
    t.same(
      known.filter((each) => !shown.has(each)),
      // Those of the transport and of the server, which do not depend on the operation.
      known.filter((each) => OTHER_CODES.includes(each)),
    )
  })

  t.test(`version ${version}: the examples of an error fit the operation`, async (t) => {
    const read = (id: string, status: number): Json[] => {
      const { responses } = operations.find(({ operationId }) => operationId === id)?.declared ?? {}
      const { examples } = resolve(responses[status]).content['application/json']
      return Object.values<Json>(examples).map(({ value }) => value.error)
    }
    const texts = (id: string, status: number) => read(id, status).map(({ message }) => message)
    t.match(texts('createUser', 409), ['The email is taken'])
    t.match(texts('createOrder', 409), ['Not enough stock'])
    t.match(texts('updateOrder', 409), ['Not enough stock', /^The status cannot change from/])
    t.match(texts('deleteOrder', 409), [/^An order with status "shipped"/])
    t.match(texts('deleteProduct', 409), ['Resources in orders still refer to this one'])
    t.match(texts('getOrder', 404), [/^There is no order with/])
    t.match(texts('listPosts', 404), [/^There is no user with/])
    t.match(texts('listOrders', 403).at(-1), 'The credential lacks the scope orders:read')
    t.notOk(operations.find(({ operationId }) => operationId === 'listOrders')?.declared.responses[404])
    for (const { operationId, declared } of operations) {
      const own = JSON.stringify(Object.values(declared.responses).map(resolve))
      if (!/User|Token|Email|PasswordReset/.test(operationId)) t.notMatch(own, /email/, operationId)
    }
  })

  t.test(`version ${version} is served with an ETag`, async (t) => {
    const { headers } = reply
    t.match(headers.get('content-type'), 'application/json')
    t.equal(headers.get('cache-control'), 'public, no-cache')
    const tag = headers.get('etag') ?? ''
    t.equal((await anybody.get(`/openapi/v${version}.json`, { 'if-none-match': tag })).status, 304)
  })
}

t.test('there is no document of another version', async (t) => {
  t.equal((await anybody.get('/openapi/v3.json')).status, 404)
})

t.test('the content security policy of the page allows its own scripts only, also on a 304', async (t) => {
  const { headers } = await anybody.get('/docs/')
  const policy = headers.get('content-security-policy')
  t.match(policy, /script-src 'self';/)
  for (const name of ['x-xss-protection', 'x-download-options']) t.equal(headers.get(name), null)
  const kept = await anybody.get('/docs/', { 'if-none-match': headers.get('etag') ?? '' })
  t.same([kept.status, kept.headers.get('content-security-policy')], [304, policy])
})

t.test('a deprecated version marks each operation as deprecated', async (t) => {
  const [v1, v2] = versions
  if (!v1 || !v2) throw new Error('There are two versions')
  const deprecated = { since: new Date(), sunset: new Date('2099-01-01'), successor: 2 }
  const { anybody, admin } = await testApp(t, {}, { versions: [{ ...v1, deprecated }, v2] })
  const { operations, judge } = createReplyChecker((await anybody.get('/openapi/v1.json')).body)
  const own = operations.filter(({ path }) => path.startsWith('/api/'))
  t.ok(own.every(({ declared }) => declared.deprecated === true && declared.responses[410]))
  const list = operations.find(({ operationId }) => operationId === 'listProducts')
  if (!list) throw new Error('Products can be listed')
  const reply = await admin.get('/api/v1/products')
  t.same(judge(list, { ...reply, headers: Object.fromEntries(reply.headers) }), [])
  t.notMatch((await anybody.get('/openapi/v2.json')).text, '"deprecated"')
})

t.test('two schemas with one name stop the start', async (t) => {
  const read = Type.Omit(Product, ['description'], { title: 'User' })
  const lists = { search: [], nullChecks: [], prefixes: [], unindexed: [] }
  const others = { operations: {}, isRestorable: false, schemas: { ...productsResource.schemas, read } }
  const homonyms = { ...productsResource, ...lists, ...others }
  const started = testApp(t, { NODE_ENV: 'development' }, { resources: [users, userProfiles, homonyms] })
  await t.rejects(started, { message: /Two different schemas have the name User/ })
})
