/**
 * Every example of a request in the OpenAPI documents succeeds on a fresh server. Only the example id is replaced, by that
 * of the resource that the run has created, and the example refresh token, by that of the last sign-in.
 */
import t from 'tap'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { buildExample } from '../../plugins/openapi/examples.ts'
import { JSON_TYPES } from '../../plugins/openapi/operation.ts'
import { exampleRefreshToken } from '../../schemas/tokens.ts'
import { exampleId } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { ADMIN_KEY, createClient, type Json, testApp } from '../helpers/app.ts'
import { getDefinition } from '../helpers/definitions.ts'
import { getReferenced } from '../helpers/example-rows.ts'
import { createReplyChecker, type Operation, withoutRequired } from '../helpers/reply-checker.ts'

/** The fields of a resource that its examples refer to another row with, such as `user_id` or `items.0.product_id`. */
function getReferredFields(value: Json): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries<Json>(value).flatMap(([name, field]) =>
    field === exampleId ? [name] : getReferredFields(field),
  )
}

/** Returns the names of the resources that a row of this one refers to. */
const getDependencies = (definition: ResourceDefinition): string[] => [
  ...(definition.parent ? [definition.parent.to] : []),
  ...getReferredFields(buildExample(definition.schemas.create)).flatMap(
    (field) => getReferenced(field)?.name ?? [],
  ),
]

/** Returns the names of the resources, those that others refer to first. */
function sortByDependency(): string[] {
  const sorted: string[] = []
  const add = (definition: ResourceDefinition) => {
    if (sorted.includes(definition.name)) return
    for (const name of getDependencies(definition)) if (name !== definition.name) add(getDefinition(name))
    sorted.push(definition.name)
  }
  for (const definition of resources) add(definition)
  return sorted
}

/** The collections in the order of their creation. Signing in needs a user; sessions need a sign-in. */
const COLLECTIONS = [
  ...sortByDependency(),
  'tokens',
  'sessions',
  'api-keys',
  'webhook-endpoints',
  'deliveries',
  'replays',
  'events',
  'health',
]
const METHODS = ['POST', 'GET', 'PUT', 'PATCH']

type ReplyChecker = ReturnType<typeof createReplyChecker>

interface Run {
  version: number
  /** The media type of bodies; for operations without it, application/json. */
  type: string
  /** The index of the example; for operations with fewer examples, the last. */
  index: number
}

const runs: Run[] = [1, 2].flatMap((version) => [
  { version, type: 'application/json', index: 0 },
  ...(version === 2 ? [{ version, type: 'application/json', index: 1 }] : []),
  { version, type: 'application/vnd.api+json', index: 0 },
  { version, type: 'application/merge-patch+json', index: 0 },
])

const tagOf = ({ declared }: Operation): string => declared.tags[0]

/** Returns the operations in the order in which a run sends them. */
function sortOperations(operations: readonly Operation[]): Operation[] {
  const rank = (operation: Operation) => {
    const collection = COLLECTIONS.indexOf(tagOf(operation))
    if (collection === -1) throw new Error(`The order of ${tagOf(operation)} is not known`)
    if (operation.method === 'DELETE') return 1_000 - collection
    return collection * METHODS.length + METHODS.indexOf(operation.method)
  }
  return operations.toSorted((a, b) => rank(a) - rank(b))
}

/** The checkers of the documents by version. They compile each schema once for all runs. */
const documents = await testApp(t)
const checkers = new Map<number, { whole: ReplyChecker; narrowed: ReplyChecker }>()
for (const version of [1, 2]) {
  const { body } = await documents.anybody.get(`/openapi/v${version}.json`)
  checkers.set(version, {
    whole: createReplyChecker(body),
    narrowed: createReplyChecker(withoutRequired(body)),
  })
}

function getCheckers(version: number) {
  const found = checkers.get(version)
  if (!found) throw new Error(`There is no version ${version}`)
  return found
}

for (const { version, type, index } of runs) {
  t.test(`the examples ${index} of version ${version} as ${type} succeed`, async (t) => {
    const { app, base } = await testApp(t)
    const { whole, narrowed } = getCheckers(version)
    const { operations, resolve } = whole
    const client = createClient(base, {})
    const accept = type === 'application/vnd.api+json' ? `${type};version=${version}` : 'application/json'
    /** The ids of the created resources by tag, and the tokens of the last sign-in. */
    const ids = new Map<string, string>()
    let tokens: Json

    const substitute = (value: Json) =>
      JSON.parse(
        JSON.stringify(value, (name, each) => {
          if (each === exampleId) return ids.get(getReferenced(name)?.name ?? '') ?? each
          return each === exampleRefreshToken ? tokens.refresh_token : each
        }),
      )

    const getCredentials = ({ declared }: Operation): Record<string, string> => {
      if (declared.security.length === 0) return {}
      const takesKeys = declared.security.some((each: object) => 'apiKey' in each)
      // The user who signs in is a member.
      const isOfAdmin =
        takesKeys || ['webhook-endpoints', 'deliveries', 'replays'].includes(String(declared.tags[0]))
      return isOfAdmin ? { 'x-api-key': ADMIN_KEY } : { authorization: `Bearer ${tokens.access_token}` }
    }

    const getPath = (operation: Operation) =>
      operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
        const { example } = operation.declared.parameters.find((each: Json) => each.name === name)
        if (example !== exampleId) return example
        if (name === 'endpoint_id') return ids.get('webhook-endpoints') ?? 'none was created'
        return (
          ids.get(name === 'id' ? tagOf(operation) : (getReferenced(name)?.name ?? '')) ?? 'none was created'
        )
      })

    const getBodies = ({ declared, operationId }: Operation): Json[] => {
      const content = declared.requestBody?.content
      if (!content) return [undefined]
      // Those of the other media types are the same.
      const { examples } = content['application/json']
      const values = Object.values<Json>(examples).map((each) => resolve(each).value)
      // Each sign-in is a session of its own, so that all examples fit into one run.
      return operationId === 'createToken' ? values : [values[Math.min(index, values.length - 1)]]
    }

    /** The examples of the optional parameters, each with the header or the query that it makes. */
    const getParameters = ({ declared }: Operation) =>
      declared.parameters
        .filter(({ examples }: Json) => examples)
        .map((parameter: Json) => ({
          ...parameter,
          value: [Object.values<Json>(parameter.examples)[0].value].flat().join(),
        }))

    async function send(operation: Operation, query: string, headers: Record<string, string>, body?: Json) {
      const { method, declared, operationId } = operation
      const sentType = declared.requestBody?.content[type] ? type : JSON_TYPES[0]
      const reply = await client.call(method, `${getPath(operation)}${query}`, {
        headers: {
          ...getCredentials(operation),
          accept,
          ...headers,
          ...(body && { 'content-type': `${sentType}` }),
        },
        ...(body && { body: substitute(body) }),
      })
      const expected = Object.keys(declared.responses).filter((status) => status < '400')
      const sent = `${operationId} ${query} ${JSON.stringify(headers)} ${JSON.stringify(body)}`
      t.ok(expected.includes(String(reply.status)), `${sent}: ${reply.status} ${reply.text.slice(0, 300)}`)
      const { judge } = query.includes('fields=') ? narrowed : whole
      t.same(judge(operation, { ...reply, headers: Object.fromEntries(reply.headers) }), [], sent)
      return reply
    }

    for (const operation of sortOperations(operations)) {
      const parameters: Json[] = getParameters(operation)
      if (operation.method === 'GET') {
        if (operation.operationId === 'listEvents') await app.events.assignAll()
        const { body: page } = await send(operation, '', {})
        // No request creates an event.
        if (operation.operationId === 'listEvents') ids.set('events', page.data[0].id)
        for (const { in: location, name, value } of parameters) {
          if (location === 'query') await send(operation, `?${name}=${encodeURIComponent(value)}`, {})
          else await send(operation, '', { [name]: value })
        }
        continue
      }
      const headers = Object.fromEntries(parameters.map(({ name, value }) => [name, value]))
      for (const body of getBodies(operation)) {
        const reply = await send(operation, '', headers, body)
        if (operation.method !== 'POST') continue
        const { data } = reply.body
        ids.set(tagOf(operation), data.id)
        if (operation.operationId !== 'createToken') continue
        tokens = { ...data, ...data.attributes }
        ids.set('sessions', tokens.session_id)
      }
    }
  })
}
