/** The OpenAPI documents are valid, complete and consistent, and are served with an ETag. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { productsResource } from '../../plugins/resources/products.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { Product } from '../../schemas/products.ts'
import { resources } from '../../src/app.ts'
import { type Json, testApp } from '../helpers/app.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

t.test('the OpenAPI documents', async (t) => {
  const { anybody, base } = await testApp(t, { PUBLIC_URL: 'https://api.shop.test/v' })

  for (const version of [1, 2]) {
    await t.test(`of version ${version}`, async (t) => {
      const reply = await anybody.get(`/openapi/v${version}.json`)
      const document = reply.body
      const { operations, faults, resolve } = createReplyChecker(document)

      await t.test('has the names that client generators need', async (t) => {
        for (const { singular, plural } of resources) {
          const names = ['get', 'create', 'replace', 'update', 'delete'].map((verb) => verb + singular)
          const ids = new Set(operations.map(({ operationId }) => operationId))
          for (const name of [...names, `list${plural}`]) t.ok(ids.has(name), name)
          for (const suffix of ['', 'Page', 'Create', 'Replace', 'Update'])
            t.ok(document.components.schemas[`${singular}${suffix}`], `${singular}${suffix}`)
        }
        t.same(Object.keys(document.components.securitySchemes), ['apiKey', 'bearer'])
        t.same(document.servers, [{ url: 'https://api.shop.test/v' }])
        const tags = document.tags.map(({ name }: Json) => name)
        t.ok(document.tags.every(({ description }: Json) => description))
        t.ok(operations.every(({ declared }) => declared.tags.every((tag: string) => tags.includes(tag))))
      })

      await t.test('contains nothing internal', async (t) => {
        t.notMatch(reply.text, /"x-(?!disabled|required-scopes|codeSamples)/)
        t.notMatch(reply.text, /OPTIONS/)
      })

      await t.test('has examples that are valid by its own schemas', async (t) => {
        const found: string[] = []
        const check = (where: string, schema: Json, examples: Json = {}, example?: unknown) => {
          const values = [
            ...Object.values<Json>(examples).map((each) => resolve(each).value),
            ...(example === undefined ? [] : [example]),
          ]
          for (const value of values)
            found.push(...faults(schema, value).map((fault) => `${where}: ${fault}`))
          return values.length
        }
        let count = 0
        const media = (where: string, content: Json = {}) => {
          for (const [i, [type, { schema, examples, example }]] of Object.entries<Json>(content).entries()) {
            const shown = check(`${where} ${type}`, schema, examples, example)
            // The other media types have the same bodies.
            if ((shown === 0) === (i === 0)) found.push(`${where} ${type} has ${shown} examples`)
            count += shown
          }
        }
        for (const { operationId, declared } of operations) {
          media(operationId, declared.requestBody?.content)
          for (const { name, schema, examples, example, description } of declared.parameters ?? []) {
            const shown = check(`${operationId} ${name}`, schema, examples, example)
            if (shown === 0) found.push(`${operationId} ${name} has no example`)
            if (!description) found.push(`${operationId} ${name} is not described`)
          }
          for (const [status, response] of Object.entries<Json>(declared.responses)) {
            media(`${operationId} ${status}`, resolve(response).content)
          }
        }
        for (const [name, { schema, example }] of Object.entries<Json>(document.components.headers))
          check(name, schema, {}, example)
        t.same(found, [])
        t.ok(count > 150, `${count} examples`)
      })

      await t.test('is served with an ETag', async (t) => {
        const tag = reply.headers.get('etag') ?? ''
        t.match(reply.headers.get('content-type'), 'application/json')
        t.equal(reply.headers.get('cache-control'), 'public, no-cache')
        t.equal((await anybody.get(`/openapi/v${version}.json`, { 'if-none-match': tag })).status, 304)
      })
    })
  }

  t.equal((await anybody.get('/openapi/v3.json')).status, 404)

  await t.test(
    'are shown by a page whose content security policy allows its own scripts only, also on a 304',
    async (t) => {
      const fresh = await fetch(`${base}/docs/`)
      const policy = fresh.headers.get('content-security-policy') ?? ''
      t.match(policy, /script-src 'self';/)
      for (const name of ['x-xss-protection', 'x-download-options']) t.equal(fresh.headers.get(name), null)
      const kept = await fetch(`${base}/docs/`, {
        headers: { 'if-none-match': fresh.headers.get('etag') ?? '' },
      })
      t.equal(kept.status, 304)
      t.equal(kept.headers.get('content-security-policy'), policy)
    },
  )
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
  const homonyms = { ...productsResource, search: [], schemas: { ...productsResource.schemas, read } }
  const started = testApp(t, { NODE_ENV: 'development' }, { resources: [usersResource, homonyms] })
  await t.rejects(started, { message: /Two different schemas have the name User/ })
})
