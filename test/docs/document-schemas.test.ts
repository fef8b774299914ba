/** The schemas of the OpenAPI documents: named, described, as strict as the server, and small enough to load. */
import t from 'tap'
import { type Json, testApp } from '../helpers/app.ts'
import { definitions } from '../helpers/definitions.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

const { admin, anybody } = await testApp(t)

/** Bytes of a document without white space: what all resources share, with accounts, and each one. */
const MAX_DOCUMENT_BYTES = 85_000 + 28_000 * definitions.length

/** The resources that can include others. */
const related = definitions.filter(({ relations }) => Object.keys(relations).length > 0)

type Visited = { path: string; schema: Json }

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

  const getBodies = (methods: readonly string[]): Visited[] =>
    operations
      .filter(({ method }) => methods.includes(method))
      .flatMap(({ operationId, declared }) =>
        Object.entries<Json>(declared.requestBody?.content ?? {}).flatMap(([type, { schema }]) =>
          // Rows are texts.
          /[/+]json/.test(type) ? walk(schema, operationId) : [],
        ),
      )

  const getPaths = (visited: readonly Visited[]) => visited.map(({ path }) => path)

  t.test(`version ${version}: bodies refuse unknown members, and a PATCH has no default`, async (t) => {
    const visited = getBodies(['PATCH'])
    t.ok(visited.some(({ path }) => path.includes('shipping_address')))
    t.same(getPaths(visited.filter(({ schema }) => 'default' in schema)), [])
    const open = getBodies(['POST', 'PUT', 'PATCH']).filter(
      ({ path, schema }) =>
        schema.type === 'object' &&
        schema.additionalProperties !== false &&
        // The body of an operation is that of its own route.
        path !== 'createBatch.operations.items.body',
    )
    t.same(getPaths(open), [])
    t.notMatch(reply.text, /"(?:readOnly|writeOnly)"/)
  })

  t.test(
    `version ${version}: the text of a body has a pattern, a format or an enum, and a limit`,
    async (t) => {
      const texts = getBodies(['POST', 'PUT', 'PATCH']).filter(({ schema: { type } }) =>
        [type].flat().includes('string'),
      )
      t.same(getPaths(texts.filter(({ schema }) => !schema.enum && !schema.pattern && !schema.format)), [])
      // Ids, dates and times are short, and so is text that matches `^[A-Z]{3}$`.
      const hasLimit = ({ enum: values, maxLength, format, pattern }: Json) =>
        values || maxLength || ['uuid', 'date', 'date-time'].includes(format) || /\}\$$/.test(pattern)
      t.same(getPaths(texts.filter(({ schema }) => !hasLimit(schema))), [])
      const standard = [undefined, 'date', 'date-time', 'email', 'int64', 'uri', 'uuid']
      const visited = Object.values<Json>(schemas).flatMap((each) => walk(each, ''))
      t.same(getPaths(visited.filter(({ schema }) => !standard.includes(schema.format))), [])
    },
  )

  t.test(
    `version ${version}: the integers beyond 32 bits have the format int64, and no others`,
    async (t) => {
      const integers: [path: string, schema: Json][] = []
      const collect = (value: Json, path: string) => {
        if (typeof value !== 'object' || value === null) return
        if ([value.type].flat().includes('integer')) integers.push([path, value])
        for (const [name, each] of Object.entries(value)) collect(each, `${path}/${name}`)
      }
      collect({ paths: document.paths, webhooks: document.webhooks, components: document.components }, '')
      for (const [path, { format, maximum = Number.POSITIVE_INFINITY }] of integers) {
        t.equal(format, maximum > 2 ** 31 - 1 ? 'int64' : undefined, path)
      }
      const large = integers.filter(([, { format }]) => format).map(([path]) => path)
      for (const path of [
        ...[
          'schemas/OffsetPagination/properties/total',
          `schemas/Event${version === 1 ? '' : 'Attributes'}/properties/position`,
        ],
        ...['headers/X-RateLimit-Reset/schema', 'parameters/ProductPriceAmountMin/schema'],
      ]) {
        t.ok(large.includes(`/components/${path}`), path)
      }
    },
  )

  t.test(`version ${version}: bodies that the schemas refuse are 422`, async (t) => {
    const getSchema = (name: string) =>
      document.paths[`/api/v${version}/${name}`].post.requestBody.content['application/json'].schema
    const product = { sku: 'A', name: 'A', price_amount: 1 }
    const bodies: [string, Json][] = [
      ['products', { ...product, name: 'a\u0007b' }],
      ['products', { ...product, description: 'a\rb' }],
      ['products', { ...product, currency: 'usd' }],
      ['products', { ...product, colour: 'red' }],
      ['user-profiles', { website_url: 'http://example.com' }],
      ['user-profiles', { website_url: 'https://é.example' }],
      ['user-profiles', { time_zone: '+05:00' }],
      ['user-profiles', { locale: 'en_GB' }],
      ['orders', { items: [], status: 'pending' }],
      ['orders', { items: [{ product_id: document.info.title, quantity: 1 }] }],
      ['tokens', { grant_type: 'password', email: 'ada@example.com', password: 'a', scope: '*' }],
      ['tokens', { grant_type: 'refresh_token', refresh_token: 'a', email: 'ada@example.com' }],
    ]
    for (const [name, members] of bodies) {
      const enveloped = { data: { type: name, attributes: members } }
      for (const body of version === 1 ? [members] : [members, enveloped]) {
        const text = JSON.stringify(body)
        t.not(faults(getSchema(name), body).length, 0, text)
        t.equal((await admin.post(`/api/v${version}/${name}`, body)).status, 422, text)
      }
    }
    const lines = { sku: `LINES-${version}`, name: 'A', price_amount: 1, description: 'a\n\tb\r\nc' }
    t.same(faults(getSchema('products'), lines), [])
    t.equal((await admin.post(`/api/v${version}/products`, lines)).status, 201)
  })

  t.test(`version ${version}: the resources of responses are whole`, async (t) => {
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
      t.ok(Object.keys(properties).length > 0)
      t.equal(required, undefined, 'relations are optional')
    }
    t.match(parameters.ProductFields.description, /Narrows the response/)
  })

  t.test(`version ${version}: enums, grants, pagination and parameters are components`, async (t) => {
    for (const name of ['UserRole', 'UserStatus', 'ProductStatus', 'OrderStatus', 'Scope']) {
      t.ok(schemas[name]?.enum, name)
    }
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
  })

  t.test(`version ${version}: each error status has a schema with its codes`, async (t) => {
    const known: string[] = resolve(schemas.ErrorObject.properties.code).enum
    const shown = new Set<string>()
    for (const { operationId, declared } of operations) {
      for (const [status, response] of Object.entries<Json>(declared.responses)) {
        if (status < '400') continue
        for (const { schema } of Object.values<Json>(resolve(response).content)) {
          t.match(schema.$ref, /^#\/components\/schemas\/\w+Error$/, `${operationId} ${status}`)
          t.not(schema.$ref, '#/components/schemas/ApiError')
          for (const each of resolve(schema).properties.error.allOf[1].properties.code.enum) shown.add(each)
        }
      }
    }
    t.same(
      known.filter((each) => !shown.has(each)),
      // Answers to unknown methods, addresses and versions, which no operation has.
      ['METHOD_NOT_ALLOWED', 'NOT_IMPLEMENTED', 'BAD_GATEWAY'],
    )
  })

  t.test(`version ${version}: every component and property is described`, async (t) => {
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

  t.test(`version ${version}: each relation says that \`include\` adds it`, async (t) => {
    for (const { singular } of related) {
      const { properties } =
        version === 2 ? schemas[`${singular}Relationships`] : schemas[`${singular}WithRelations`].allOf[1]
      t.not(Object.keys(properties).length, 0)
      for (const [name, { description }] of Object.entries<Json>(properties)) {
        t.equal(description, `Present only with \`include=${name}\``)
      }
    }
  })

  t.test(`version ${version}: the document is smaller than ${MAX_DOCUMENT_BYTES} bytes`, async (t) => {
    const size = Buffer.byteLength(JSON.stringify(document))
    t.ok(size < MAX_DOCUMENT_BYTES, `${size} bytes`)
  })
}
