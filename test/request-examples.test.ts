/**
 * Every example of a request in the OpenAPI documents succeeds as declared. Each run starts a server and sends one example
 * of each operation, deletions last. Only the example id and the example tokens are replaced. Reads and creations take
 * the media types in turn; PUT and PATCH are sent in each.
 */
import t from 'tap'
import { exampleLinkToken } from '../packages/accounts/src/schemas/password-resets.ts'
import { exampleRefreshToken } from '../packages/accounts/src/schemas/tokens.ts'
import { buildExample } from '../packages/http/src/openapi/examples.ts'
import { JSON_TYPES } from '../packages/http/src/openapi/operation.ts'
import { exampleId } from '../packages/http/src/schemas/types.ts'
import type { ResourceDefinition } from '../packages/resources/src/collection/definition.ts'
import { ADMIN_KEY, createClient, type Json, testApp } from '../packages/testing/helpers/app.ts'
import { getDefinition } from '../packages/testing/helpers/definitions.ts'
import { getReferenced } from '../packages/testing/helpers/example-rows.ts'
import { recordLinks } from '../packages/testing/helpers/links.ts'
import {
  createReplyChecker,
  type Operation,
  withoutRequired,
} from '../packages/testing/helpers/reply-checker.ts'
import { toCollections } from '../packages/testing/helpers/serve.ts'
import { own } from '../src/own.ts'
import { resources } from '../src/resources.ts'

/** Returns the names of the resources that a row of this one, or its examples, refer to. */
function getDependencies({ name, parent, schemas }: ResourceDefinition): string[] {
  const example = JSON.stringify(buildExample(schemas.create))
  const fields = [...example.matchAll(new RegExp(`"(\\w+)":"${exampleId}"`, 'g'))]
  const names = [parent?.to, ...fields.map(([, field = '']) => getReferenced(field)?.name)]
  return names.flatMap((each) => (each === undefined || each === name ? [] : [each]))
}

const sorted = new Set<string>()
function addAfterDependencies(name: string) {
  for (const each of getDependencies(getDefinition(name))) addAfterDependencies(each)
  sorted.add(name)
}
for (const { name } of resources) addAfterDependencies(name)

const WEBHOOKS = ['webhook-endpoints', 'deliveries', 'replays']
/**
 * The collections in the order of their creation. Signing in needs a user; sessions need a sign-in, and a
 * password reset ends them.
 */
const COLLECTIONS = [
  ...[...sorted, 'batches', 'password-resets', 'tokens', 'email-verifications', 'sessions'],
  ...['api-keys', ...WEBHOOKS, 'events', 'health'],
]
const METHODS = ['POST', 'GET', 'PUT', 'PATCH']

const tagOf = ({ declared }: Operation): string => declared.tags[0]

/** Returns whether an operation is a route or an operation of the project: what it changes else is not known here. */
const isOwn = (operation: Operation) =>
  own.routes.some(({ name }) => name === tagOf(operation)) ||
  toCollections(own.resources).some(({ name, operations }) =>
    Object.keys(operations).some((each) => operation.path.endsWith(`/${name}/{id}/${each}`)),
  )

/** Returns the position of an operation in a run. */
function getRank(operation: Operation): number {
  const collection = COLLECTIONS.indexOf(tagOf(operation))
  if (collection === -1) throw new Error(`The order of ${tagOf(operation)} is not known`)
  if (operation.method === 'DELETE') return 1_000 - collection
  return collection * METHODS.length + METHODS.indexOf(operation.method)
}

const MEDIA_TYPES = [...JSON_TYPES, 'application/merge-patch+json']
/** The index of the example or, with fewer, the last. Version 2 has a second form of bodies; its reads are the same. */
const runs = [
  { version: 1, index: 0 },
  { version: 2, index: 0 },
  { version: 2, index: 1 },
]

const { anybody } = await testApp(t)
/** The checkers of the documents. They compile each schema once for all runs. */
const checkers = await Promise.all(
  [1, 2].map(async (version) => {
    const { body } = await anybody.get(`/openapi/v${version}.json`)
    return { version, whole: createReplyChecker(body), narrowed: createReplyChecker(withoutRequired(body)) }
  }),
)

for (const { version, index } of runs) {
  t.test(`the examples ${index} of version ${version} succeed`, async (t) => {
    const { app, base } = await testApp(t)
    const links = recordLinks(app)
    const found = checkers.find((each) => each.version === version)
    if (!found) throw new Error(`There is no version ${version}`)
    const { whole, narrowed } = found
    const client = createClient(base, {})
    const accepts = ['application/json', `application/vnd.api+json;version=${version}`]
    /** The number of requests, by which each takes another media type than the one before. */
    let count = 0
    /** The ids of the created resources by tag, and the tokens of the last sign-in. */
    const ids = new Map<string, string>()
    let tokens: Json
    const getReferencedId = (field: string) => ids.get(getReferenced(field)?.name ?? '')

    const substitute = (value: Json) =>
      JSON.parse(
        JSON.stringify(value, (name, each) => {
          if (each === exampleId) return getReferencedId(name) ?? each
          if (each === exampleLinkToken) return links.at(-1)?.token
          return each === exampleRefreshToken ? tokens.refresh_token : each
        }),
      )

    const getCredentials = (operation: Operation): Record<string, string> => {
      const security: object[] = operation.declared.security
      if (security.length === 0) return {}
      // The user who signs in is a member.
      const isOfAdmin = security.some((each) => 'apiKey' in each) || WEBHOOKS.includes(tagOf(operation))
      return isOfAdmin ? { 'x-api-key': ADMIN_KEY } : { authorization: `Bearer ${tokens.access_token}` }
    }

    const getPath = (operation: Operation) =>
      operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
        const { example } = operation.declared.parameters.find((each: Json) => each.name === name)
        if (example !== exampleId) return example
        const tag = { id: tagOf(operation), endpoint_id: 'webhook-endpoints' }[name]
        return (tag === undefined ? getReferencedId(name) : ids.get(tag)) ?? 'none was created'
      })

    const getBodies = ({ declared, operationId }: Operation): Json[] => {
      if (!declared.requestBody) return []
      // Those of the other media types are the same.
      const { examples } = declared.requestBody.content['application/json']
      const values = Object.values<Json>(examples).map((each) => whole.resolve(each).value)
      // Each sign-in is a session of its own, so that all examples fit into one run.
      return operationId === 'createToken' ? values : [values[Math.min(index, values.length - 1)]]
    }

    /** The optional parameters with the value of their first example. */
    const getParameters = ({ declared }: Operation): Json[] =>
      declared.parameters
        .filter(({ examples }: Json) => examples)
        .map((parameter: Json) => ({
          ...parameter,
          value: [Object.values<Json>(parameter.examples)[0].value].flat().join(),
        }))

    /** Queries of each parameter, and of each value of `include` and, in lists of version 1, of `fields` and `sort`. */
    const getQueries = (parameters: readonly Json[], { path }: Operation) =>
      parameters.flatMap(({ in: location, name, value, schema }) => {
        if (location !== 'query') return []
        const isWhole = name === 'include' || (version === 1 && !path.endsWith('}'))
        const others = isWhole ? (schema.items?.enum ?? []) : []
        return [value, ...others].map((each) => `?${name}=${encodeURIComponent(each)}`)
      })

    const getTypes = ({ declared }: Operation) =>
      MEDIA_TYPES.filter((each) => declared.requestBody?.content[each])

    async function send(operation: Operation, query: string, given: Record<string, string>, body?: Json) {
      const { method, operationId } = operation
      const accept = accepts[count % accepts.length] ?? ''
      count += 1
      const headers = { ...getCredentials(operation), accept, ...given }
      const reply = await client.call(method, `${getPath(operation)}${query}`, {
        headers,
        body: body && substitute(body),
      })
      const sent = `${operationId} ${query} ${JSON.stringify(headers)} ${JSON.stringify(body)}`
      t.ok(reply.status < 400, `${sent}: ${reply.status} ${reply.text.slice(0, 300)}`)
      const { judge } = query.includes('fields=') ? narrowed : whole
      t.same(judge(operation, { ...reply, headers: Object.fromEntries(reply.headers) }), [], sent)
      return reply
    }

    const operations = whole.operations.filter((each) => !isOwn(each))
    for (const operation of operations.toSorted((a, b) => getRank(a) - getRank(b))) {
      const { method, operationId } = operation
      const parameters = getParameters(operation)
      const headers = parameters
        .filter((each) => each.in === 'header')
        .map(({ name, value }): [string, string] => [name, value])
      if (method === 'GET') {
        if (operationId === 'listEvents') await app.events.assignAll()
        const { body: page } = await send(operation, '', {})
        // No request creates an event.
        if (operationId === 'listEvents') ids.set('events', page.data[0].id)
        if (index > 0) continue
        for (const query of getQueries(parameters, operation)) await send(operation, query, {})
        for (const header of headers) await send(operation, '', Object.fromEntries([header]))
        continue
      }
      const all = Object.fromEntries(headers)
      if (method === 'DELETE') await send(operation, '', all)
      const types = getTypes(operation)
      for (const body of getBodies(operation)) {
        // A second creation would be a conflict, and the token of a link can be used once.
        if (method !== 'POST' && !operationId.startsWith('complete')) {
          for (const type of types) await send(operation, '', { ...all, 'content-type': type }, body)
          continue
        }
        const type = types[count % types.length] ?? ''
        const reply = await send(operation, '', { ...all, 'content-type': type }, body)
        if (method !== 'POST') continue
        const { data } = reply.body
        ids.set(tagOf(operation), data.id)
        if (operationId !== 'createToken') continue
        tokens = { ...data, ...data.attributes }
        ids.set('sessions', tokens.session_id)
      }
    }
  })
}

t.test('the example of a DELETE is not the caller', async (t) => {
  for (const { method, declared } of checkers.flatMap(({ whole }) => whole.operations)) {
    const id = declared.parameters.find(({ name }: Json) => name === 'id')
    if (method === 'DELETE') t.equal(id.example, exampleId)
  }
})
