/** Checks the OpenAPI documents: complete names, valid examples, closed schemas, and the access that the service grants. */
import type { BuildApp, TestOverrides } from './app.ts'
import { type CheckedApp, type CheckOptions, type CheckTest, startChecked } from './check.ts'
import { checkDocumentedAccess } from './check-documented-access.ts'
import type { Json } from './client.ts'
import { createReplyChecker } from './reply-checker.ts'

type Visited = { path: string; schema: Json }
const getPaths = (visited: readonly Visited[]) => visited.map(({ path }) => path)

/** Checks the documents of all versions. */
export async function checkDocuments<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  options: CheckOptions<O> = {},
): Promise<void> {
  await t.test('documents', { skip: false }, async (t) => {
    const api = await startChecked(t, buildApp, options)
    for (const { representation } of api.app.versions) await checkDocument(t, api, representation.version)
    await checkDocumentedAccess(t, buildApp, options)
  })
}

async function checkDocument(t: CheckTest, { anybody, app }: CheckedApp, version: number): Promise<void> {
  const { body: document } = await anybody.get(`/openapi/v${version}.json`)
  const { schemas } = document.components
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

  await t.test(`version ${version} has the names that client generators need`, { skip: false }, async (t) => {
    const ids = operations.map(({ operationId }) => operationId)
    for (const { singular, plural, verbs } of app.ownResources)
      for (const verb of verbs) {
        const name = { list: `list${plural}`, read: `get${singular}`, remove: `delete${singular}` }[
          String(verb)
        ]
        t.ok(ids.includes(name ?? verb + singular), name ?? verb + singular)
      }
  })

  await t.test(
    `version ${version} has examples that are valid by its own schemas`,
    { skip: false },
    async (t) => {
      const found: string[] = []
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
        }
      }
      for (const { operationId, declared } of operations) {
        checkContent(operationId, declared.requestBody?.content)
        for (const parameter of declared.parameters) {
          const where = `${operationId} ${parameter.name}`
          if (check(where, parameter) === 0) found.push(`${where} has no example`)
          if (!parameter.description) found.push(`${where} is not described`)
        }
        for (const [status, response] of Object.entries<Json>(declared.responses))
          checkContent(`${operationId} ${status}`, resolve(response).content)
      }
      for (const [name, header] of Object.entries<Json>(document.components.headers)) check(name, header)
      t.same(found, [])
    },
  )

  await t.test(
    `version ${version}: the schemas of bodies are closed, limited, and without internals`,
    { skip: false },
    async (t) => {
      const patches = getBodies(['PATCH'])
      const bodies = getBodies(['POST', 'PUT', 'PATCH'])
      const texts = bodies.filter(({ schema: { type } }) => [type].flat().includes('string'))
      const isShort = ({ format, pattern }: Json) =>
        ['uuid', 'date', 'date-time', 'time-of-day'].includes(format) || /\}\$$/.test(pattern)
      // The last two are those of `Decimal` and `TimeOfDay`.
      const known = [
        ...[undefined, 'date', 'date-time', 'email', 'int64', 'uri', 'uuid'],
        ...['decimal', 'time-of-day'],
      ]
      for (const [rule, violations] of Object.entries({
        'a PATCH has no default': patches.filter(({ schema }) => 'default' in schema),
        'bodies refuse unknown members': bodies.filter(
          ({ path, schema }) =>
            schema.type === 'object' &&
            schema.additionalProperties !== false &&
            // The body of an operation is that of its own route.
            path !== 'createBatch.operations.items.body',
        ),
        'a text has a pattern, a format or an enum': texts.filter(
          ({ schema }) => !schema.enum && !schema.pattern && !schema.format,
        ),
        'a text has a limit': texts.filter(
          ({ schema }) => !schema.enum && !schema.maxLength && !isShort(schema),
        ),
        'formats are known': Object.values<Json>(schemas)
          .flatMap((each) => walk(each, ''))
          .filter(({ schema }) => !known.includes(schema.format)),
      }))
        t.same(getPaths(violations), [], rule)
    },
  )
}
