/** The OpenAPI documents are valid, complete and consistent, and are served with an ETag. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { usersResource } from '../../plugins/resources/users.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { resources } from '../../src/app.ts'
import { productsResource } from '../fixtures/resources/products.ts'
import { Product } from '../fixtures/schemas/products.ts'
import { type Json, testApp } from '../helpers/app.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

const PUBLIC_URL = 'https://api.shop.test/v'
const { anybody } = await testApp(t, { PUBLIC_URL })

const replies = await Promise.all([1, 2].map((version) => anybody.get(`/openapi/v${version}.json`)))

for (const [i, reply] of replies.entries()) {
  const version = i + 1
  const document = reply.body
  const { operations, faults, resolve } = createReplyChecker(document)

  t.test(`version ${version} has the names that client generators need, and nothing internal`, async (t) => {
    const ids = operations.map(({ operationId }) => operationId)
    for (const { singular, plural } of resources) {
      const names = ['get', 'create', 'replace', 'update', 'delete'].map((verb) => verb + singular)
      for (const name of [...names, `list${plural}`]) t.ok(ids.includes(name), name)
      for (const suffix of ['', 'Page', 'Create', 'Replace', 'Update']) {
        t.ok(document.components.schemas[`${singular}${suffix}`], `${singular}${suffix}`)
      }
    }
    t.same(Object.keys(document.components.securitySchemes), ['apiKey', 'bearer'])
    t.same(document.servers, [{ url: PUBLIC_URL }])
    const tags = document.tags.map(({ name }: Json) => name)
    t.ok(document.tags.every(({ description }: Json) => description))
    t.same([...new Set(operations.flatMap(({ declared }) => declared.tags))].sort(), tags.sort())
    t.match(document.paths, { '/livez': {}, '/readyz': {} })
    t.notMatch(reply.text, /"x-(?!disabled|required-scopes|codeSamples|import|export)|OPTIONS/)
  })

  t.test(`version ${version} has examples that are valid by its own schemas`, async (t) => {
    const found: string[] = []
    let count = 0
    const check = (where: string, { schema, examples = {}, example }: Json): number => {
      const values = Object.values<Json>(examples).map((each) => resolve(each).value)
      if (example !== undefined) values.push(example)
      for (const value of values) found.push(...faults(schema, value).map((fault) => `${where}: ${fault}`))
      return values.length
    }
    const checkContent = (where: string, content: Json = {}) => {
      for (const [i, [type, media]] of Object.entries<Json>(content).entries()) {
        const shown = check(`${where} ${type}`, media)
        // The other media types have the same bodies, except those of rows.
        if ((shown === 0) === (i === 0 || !type.includes('+json')))
          found.push(`${where} ${type} has ${shown} examples`)
        count += shown
      }
    }
    for (const { operationId, declared } of operations) {
      checkContent(operationId, declared.requestBody?.content)
      for (const parameter of declared.parameters) {
        const where = `${operationId} ${parameter.name}`
        if (check(where, parameter) === 0) found.push(`${where} has no example`)
        if (!parameter.description) found.push(`${where} is not described`)
      }
      for (const [status, response] of Object.entries<Json>(declared.responses)) {
        checkContent(`${operationId} ${status}`, resolve(response).content)
      }
    }
    for (const [name, header] of Object.entries<Json>(document.components.headers)) check(name, header)
    t.same(found, [])
    t.ok(count > 150, `${count} examples`)
  })

  t.test(`version ${version} is served with an ETag`, async (t) => {
    const { headers } = reply
    t.match(headers.get('content-type'), 'application/json')
    t.equal(headers.get('cache-control'), 'public, no-cache')
    const kept = await anybody.get(`/openapi/v${version}.json`, {
      'if-none-match': headers.get('etag') ?? '',
    })
    t.equal(kept.status, 304)
  })
}

t.test('there is no document of another version, and documents are identical after a restart', async (t) => {
  t.equal((await anybody.get('/openapi/v3.json')).status, 404)
  const restarted = await testApp(t, { PUBLIC_URL })
  t.equal(
    (await restarted.anybody.get('/openapi/v1.json')).text,
    (await anybody.get('/openapi/v1.json')).text,
  )
})

t.test('the content security policy of the page allows its own scripts only, also on a 304', async (t) => {
  const { headers } = await anybody.get('/docs/')
  const policy = headers.get('content-security-policy')
  t.match(policy, /script-src 'self';/)
  for (const name of ['x-xss-protection', 'x-download-options']) t.equal(headers.get(name), null)
  const kept = await anybody.get('/docs/', { 'if-none-match': headers.get('etag') ?? '' })
  t.equal(kept.status, 304)
  t.equal(kept.headers.get('content-security-policy'), policy)
})

t.test('a deprecated version marks each operation as deprecated', async (t) => {
  const [v1, v2] = versions
  if (!v1 || !v2) throw new Error('There are two versions')
  const deprecated = { since: new Date(), sunset: new Date('2099-01-01'), successor: 2 }
  const { anybody, admin } = await testApp(t, {}, { versions: [{ ...v1, deprecated }, v2] })
  const { body } = await anybody.get('/openapi/v1.json')
  const { operations, judge } = createReplyChecker(body)
  const own = operations.filter(({ path }) => path.startsWith('/api/'))
  t.ok(own.every(({ declared }) => declared.deprecated === true && declared.responses[410]))
  const list = operations.find(({ operationId }) => operationId === 'listProducts')
  if (!list) throw new Error('Products can be listed')
  const reply = await admin.get('/api/v1/products')
  t.same(judge(list, { ...reply, headers: Object.fromEntries(reply.headers) }), [])
  const { body: other } = await anybody.get('/openapi/v2.json')
  t.notMatch(JSON.stringify(other), '"deprecated"')
})

t.test('two schemas with one name stop the start', async (t) => {
  const read = Type.Omit(Product, ['description'], { title: 'User' })
  const lists = { search: [], nullChecks: [], prefixes: [], unindexed: [] }
  const homonyms = { ...productsResource, ...lists, schemas: { ...productsResource.schemas, read } }
  const started = testApp(t, { NODE_ENV: 'development' }, { resources: [usersResource, homonyms] })
  await t.rejects(started, { message: /Two different schemas have the name User/ })
})
