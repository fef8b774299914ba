/** The OpenAPI documents are valid, complete and consistent, and are served with an ETag. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Type } from '@sinclair/typebox'
import spectral, { type RulesetDefinition } from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'
import t from 'tap'
import { productsResource } from '../../plugins/resources/products.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { Product } from '../../schemas/products.ts'
import { type Json, testApp } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

/** Redocly's linter by its own command, with the settings of `redocly.yaml`. */
async function redocly(file: string): Promise<Json[]> {
  const cli = join(root, 'node_modules/@redocly/cli/bin/cli.js')
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const args = [cli, 'lint', '--config', join(root, 'redocly.yaml'), '--format', 'json', file]
  const { stdout } = await run(process.execPath, args, { env, maxBuffer: 1 << 26 }).catch((failed) => failed)
  return JSON.parse(stdout.slice(stdout.indexOf('{'))).problems
}

/** Spectral's rule for the examples of media types and of headers. */
const EXAMPLE_RULE = 'oas3-valid-media-example'

/** Spectral's linter with all its rules. */
async function stoplight(document: Json) {
  // Its own types do not fit each other: a ruleset without `extends` is one too.
  const oas = rulesets.oas as RulesetDefinition
  const all = new spectral.Spectral()
  all.setRuleset({
    extends: [[oas, 'all']],
    rules: {
      // The operator of an installation is its contact, whose e-mail address the service does not publish.
      'contact-properties': 'off',
      // OpenAPI 3.1 forbids a `url` next to the `identifier`.
      'license-url': 'off',
      // The order is that of a reader: users first, who own what follows.
      'openapi-tags-alphabetical': 'off',
      [EXAMPLE_RULE]: 'off',
    },
  })
  const examples = new spectral.Spectral()
  examples.setRuleset({ extends: [[oas, 'off']], rules: { [EXAMPLE_RULE]: 'error' } })
  return [...(await all.run(document)), ...(await examples.run(omitReferences(document)))]
}

/**
 * Returns a document without the references to shared headers and responses. The rule for examples would compile the
 * schema of each of them again wherever it is referred to, for seconds, instead of once among the components.
 */
const omitReferences = (document: Json): Json =>
  JSON.parse(JSON.stringify(document), (_, value) =>
    /^#\/components\/(headers|responses)\//.test(value?.$ref) ? undefined : value,
  )

t.test('the OpenAPI documents', async (t) => {
  const { anybody, base } = await testApp(t, { PUBLIC_URL: 'https://api.shop.test/v' })
  const folder = testFolder(t)

  for (const version of [1, 2]) {
    await t.test(`of version ${version}`, async (t) => {
      const reply = await anybody.get(`/openapi/v${version}.json`)
      const document = reply.body
      const { operations, faults, resolve } = createReplyChecker(document)
      const file = join(folder, `v${version}.json`)
      writeFileSync(file, reply.text)

      await t.test('passes two independent linters without a warning', async (t) => {
        const [first, second] = await Promise.all([redocly(file), stoplight(document)])
        t.same(first, [])
        t.same(second, [])
      })

      await t.test('has the names that client generators need', async (t) => {
        for (const one of ['User', 'UserProfile', 'Post', 'Product', 'Order']) {
          for (const operation of [
            `get${one}`,
            `create${one}`,
            `replace${one}`,
            `update${one}`,
            `delete${one}`,
            `list${one}s`,
          ]) {
            t.ok(
              operations.some(({ operationId }) => operationId === operation),
              operation,
            )
          }
          for (const suffix of ['', 'Page', 'Create', 'Replace', 'Update']) {
            t.ok(document.components.schemas[`${one}${suffix}`], `${one}${suffix}`)
          }
        }
        t.same(Object.keys(document.components.securitySchemes), ['apiKey', 'bearer'])
        t.same(document.servers, [{ url: 'https://api.shop.test/v' }])
        const tags = document.tags.map(({ name }: Json) => name)
        t.ok(document.tags.every(({ description }: Json) => description))
        t.ok(operations.every(({ declared }) => declared.tags.every((tag: string) => tags.includes(tag))))
        t.ok(
          operations.some(({ path }) => path === '/livez') &&
            operations.some(({ path }) => path === '/readyz'),
        )
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
          for (const [type, { schema, examples, example }] of Object.entries<Json>(content)) {
            const shown = check(`${where} ${type}`, schema, examples, example)
            if (shown === 0) found.push(`${where} ${type} has no example`)
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
        t.ok(count > 200, `${count} examples`)
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

  await t.test('are identical after a restart', async (t) => {
    const again = await testApp(t, { PUBLIC_URL: 'https://api.shop.test/v' })
    t.equal((await again.anybody.get('/openapi/v1.json')).text, (await anybody.get('/openapi/v1.json')).text)
  })

  await t.test(
    'are shown by a page whose content security policy names its script, also on a 304',
    async (t) => {
      const fresh = await fetch(`${base}/docs/`)
      const policy = fresh.headers.get('content-security-policy') ?? ''
      t.match(policy, /script-src 'self' 'sha256-[^']+';/)
      t.notMatch(policy, /script-src[^;]*unsafe/)
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
  const read = Type.Omit(Product, ['description'], { title: 'Product' })
  const twin = {
    ...productsResource,
    name: 'gadgets',
    singular: 'Gadget',
    plural: 'Gadgets',
    search: [],
    schemas: { ...productsResource.schemas, read },
  }
  const started = testApp(t, { NODE_ENV: 'development' }, { resources: [productsResource, twin] })
  await t.rejects(started, { message: /Two different schemas have the name Product/ })
})
