/**
 * Checks that every example of a request in the OpenAPI documents succeeds as declared. Each run starts a server and sends
 * one example of each operation, deletions last. Only the example id and the example tokens are replaced. Reads and
 * creations take the media types in turn; PUT and PATCH are sent in each.
 */
import { exampleLinkToken, exampleRefreshToken } from '@resource-api/accounts/internal'
import { buildExample, JSON_TYPES } from '@resource-api/api/documents'
import { exampleId } from '@resource-api/api/schemas'
import { getBuiltInName } from '@resource-api/database/application'
import type {} from '@resource-api/events'
import { ADMIN_KEY, type BuildApp, type TestOverrides } from './app.ts'
import { type CheckedApp, type CheckOptions, type CheckTest, startChecked } from './check.ts'
import { createClient, type Json, type Reply } from './client.ts'
import type { Definitions } from './definitions.ts'
import { createOwnedRows, findReferenced } from './example-rows.ts'
import { recordLinks } from './links.ts'
import { findOwnAccess } from './own-access.ts'
import { createReplyChecker, type Operation, withoutRequired } from './reply-checker.ts'

/** Returns the names of resources: each follows those that its rows, or its examples, refer to. */
function sortByDependency(all: Definitions): string[] {
  const getDependencies = (resource: string): string[] => {
    const definition = all.getDefinition(resource)
    const { name, parent, schemas } = definition
    const example = JSON.stringify(buildExample(schemas.create))
    const fields = [...example.matchAll(new RegExp(`"(\\w+)":"${exampleId}"`, 'g'))]
    const names = [
      parent?.to,
      ...fields.map(([, field = '']) => findReferenced(all, field, definition)?.name),
    ]
    return names.flatMap((each) => (each === undefined || each === name ? [] : [each]))
  }
  const sorted = new Set<string>()
  const addAfterDependencies = (name: string) => {
    for (const each of getDependencies(name)) addAfterDependencies(each)
    sorted.add(name)
  }
  for (const { name } of all.definitions) if (!BUILT_IN.includes(name)) addAfterDependencies(name)
  return [...sorted]
}

const ENDPOINTS = getBuiltInName('webhook-endpoints')
const SESSIONS = getBuiltInName('sessions')
const EVENTS = getBuiltInName('events')
const WEBHOOKS = [ENDPOINTS, getBuiltInName('deliveries'), getBuiltInName('replays')]
const BUILT_IN = [SESSIONS, getBuiltInName('api-keys'), ...WEBHOOKS, EVENTS]
const METHODS = ['POST', 'GET', 'PUT', 'PATCH']

const getTag = ({ declared }: Operation): string => declared.tags[0]

/** Returns a function that returns the position of an operation in a run. */
function createRanks({ definitions }: CheckedApp) {
  // Signing in needs a user; sessions need a sign-in, and a password reset ends them.
  const collections = [
    ...[...sortByDependency(definitions), 'batches', 'password-resets', 'tokens', 'email-verifications'],
    ...[...BUILT_IN, 'health'],
  ]
  return (operation: Operation): number => {
    const collection = collections.indexOf(getTag(operation))
    if (collection === -1) throw new Error(`The order of ${getTag(operation)} is not known`)
    if (operation.method === 'DELETE') return 1_000 - collection
    return collection * METHODS.length + METHODS.indexOf(operation.method)
  }
}

const MEDIA_TYPES = [...JSON_TYPES, 'application/merge-patch+json']
/**
 * Returns the resources whose rows cannot be deleted, because rows without a deletion refer to them.
 * @param refused resources whose code has refused a deletion
 */
function findKept(
  { definitions, getReferences, getTable }: Definitions,
  refused: ReadonlySet<string>,
): ReadonlySet<string> {
  const kept = new Set(refused)
  const isKeptBy = (name: string) =>
    definitions.some(
      (each) =>
        (!each.verbs.includes('remove') || kept.has(each.name)) &&
        [...getReferences(each).values()].includes(getTable(name)),
    )
  for (let size = -1; size !== kept.size; ) {
    size = kept.size
    for (const { name } of definitions) if (isKeptBy(name)) kept.add(name)
  }
  return kept
}

/** Returns a message of an error without values, which are others in the documents. */
const withoutValues = (message: string) => message.replaceAll(/"[^"]*"|\d+/g, '')

interface Run {
  version: number
  /** Whether the version has the whole of its reads checked: those of others are the same. */
  isFirst: boolean
  /** The index of the example or, with fewer, the last. */
  index: number
}

/** Checks the examples of all requests. */
export async function checkExamples<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  options: CheckOptions<O> = {},
): Promise<void> {
  const run = (t: CheckTest, each: Run, name: string) =>
    t.test(name, { skip: false }, async (t) =>
      sendExamples(t, await startChecked(t, buildApp, options), each),
    )
  await t.test('examples', { skip: false }, async (t) => {
    const { app } = await startChecked(t, buildApp, options)
    for (const [i, { representation }] of app.versions.entries()) {
      const { version } = representation
      // Later versions have a second form of bodies.
      for (const index of i === 0 ? [0] : [0, 1])
        await run(
          t,
          { version, isFirst: i === 0, index },
          `the examples ${index} of version ${version} succeed`,
        )
    }
  })
}

async function sendExamples(t: CheckTest, api: CheckedApp, { version, isFirst, index }: Run): Promise<void> {
  const { app, adminId, anybody, base, database, examples, getReason } = api
  const { definitions } = api.definitions
  const links = recordLinks(app)
  const ownedRows = createOwnedRows(database, api)
  const getRank = createRanks(api)
  const refused = new Set<string>()
  const { body: document } = await anybody.get(`/openapi/v${version}.json`)
  const whole = createReplyChecker(document)
  const narrowed = createReplyChecker(withoutRequired(document))
  const client = createClient(base, {})
  const accepts = ['application/json', `application/vnd.api+json;version=${version}`]
  /** The number of requests, by which each takes another media type than the one before. */
  let count = 0
  /** The ids of the created resources by tag, and the tokens of the last sign-in. */
  const ids = new Map<string, string>()
  let tokens: Json
  const getReferencedId = (field: string, operation: Operation) => {
    const definition = definitions.find(({ name }) => name === getTag(operation))
    return ids.get(findReferenced(api.definitions, field, definition)?.name ?? '')
  }

  const substitute = (value: Json, operation: Operation) =>
    JSON.parse(
      JSON.stringify(value, (name, each) => {
        if (each === exampleId) return getReferencedId(name, operation) ?? each
        if (each === exampleLinkToken) return links.at(-1)?.token
        return each === exampleRefreshToken ? tokens.refresh_token : each
      }),
    )

  const getCredentials = (operation: Operation): Record<string, string> => {
    const security: object[] = operation.declared.security
    if (security.length === 0) return {}
    // The user who signs in is a member.
    const isOfAdmin = security.some((each) => 'apiKey' in each) || WEBHOOKS.includes(getTag(operation))
    return isOfAdmin ? { 'x-api-key': ADMIN_KEY } : { authorization: `Bearer ${tokens.access_token}` }
  }

  const getPath = (operation: Operation) =>
    operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const { example } = operation.declared.parameters.find((each: Json) => each.name === name)
      if (example !== exampleId) return example
      const tag = { id: getTag(operation), endpoint_id: ENDPOINTS }[name]
      return (tag === undefined ? getReferencedId(name, operation) : ids.get(tag)) ?? 'none was created'
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
      const isWhole = name === 'include' || (isFirst && !path.endsWith('}'))
      const others = isWhole ? (schema.items?.enum ?? []) : []
      return [value, ...others].map((each) => `?${name}=${encodeURIComponent(each)}`)
    })

  const getTypes = ({ declared }: Operation) =>
    MEDIA_TYPES.filter((each) => declared.requestBody?.content[each])

  /** The query of an operation with a further parameter, and with those without which it fails. */
  const toQuery = ({ declared }: Operation, query: string) => {
    const needed = declared.parameters.filter((each: Json) => each.in === 'query' && each.required)
    const all = new URLSearchParams(query)
    for (const { name, example } of needed) all.append(name, [example].flat().join())
    return needed.length > 0 ? `?${all}` : query
  }

  /** Returns whether a 409 of a deletion is a conflict that its code declares, or follows from such a one. */
  const isKept = (operation: Operation, { status, body }: Reply) => {
    if (operation.method !== 'DELETE' || status !== 409) return false
    const { content } = whole.resolve(operation.declared.responses[409])
    const { referred: _, ...declared } = content['application/json'].examples
    const message = withoutValues(body.error.message)
    if (Object.values<Json>(declared).some(({ value }) => withoutValues(value.error.message) === message))
      refused.add(getTag(operation))
    return findKept(api.definitions, refused).has(getTag(operation))
  }

  async function send(operation: Operation, parameter: string, given: Record<string, string>, body?: Json) {
    const { method, operationId } = operation
    const query = toQuery(operation, parameter)
    const accept = accepts[count % accepts.length] ?? ''
    count += 1
    const headers = { ...getCredentials(operation), accept, ...given }
    const reply = await client.call(method, `${getPath(operation)}${query}`, {
      headers,
      body: body && substitute(body, operation),
    })
    const sent = `${operationId} ${query} ${JSON.stringify(headers)} ${JSON.stringify(body)}`
    t.ok(
      reply.status < 400 || isKept(operation, reply),
      `${sent}: ${reply.status} ${reply.text.slice(0, 300)}`,
    )
    const { judge } = query.includes('fields=') ? narrowed : whole
    t.same(judge(operation, { ...reply, headers: Object.fromEntries(reply.headers) }), [], sent)
    return reply
  }

  const isChecked = (each: Operation) =>
    findOwnAccess(app, each) === undefined && getReason(getTag(each)) === false
  const operations = whole.operations.filter(isChecked)
  // Other examples may refer to rows of what is left out, but none to an event.
  for (const { isView, name } of definitions)
    if (isView || (getReason(name) !== false && name !== EVENTS))
      ids.set(name, await ownedRows.make(name, adminId))
  for (const operation of operations.toSorted((a, b) => getRank(a) - getRank(b))) {
    const { method, operationId } = operation
    const parameters = getParameters(operation)
    const headers = parameters
      .filter((each) => each.in === 'header')
      .map(({ name, value }): [string, string] => [name, value])
    if (method === 'GET') {
      const isFeed = getTag(operation) === EVENTS && !operation.path.endsWith('}')
      if (isFeed) await app.events.assignAll()
      const { body: page } = await send(operation, '', {})
      // No request creates an event.
      if (isFeed) ids.set(EVENTS, page.data[0].id)
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
      const sent = { database, owner: adminId, body: substitute(body.data?.attributes ?? body, operation) }
      if (method === 'POST') await examples.get(getTag(operation))?.before?.(sent)
      const reply = await send(operation, '', { ...all, 'content-type': type }, body)
      if (method !== 'POST') continue
      const { data } = reply.body
      ids.set(getTag(operation), data.id)
      if (operationId !== 'createToken') continue
      tokens = { ...data, ...data.attributes }
      ids.set(SESSIONS, tokens.session_id)
    }
  }

  for (const { method, declared, operationId } of whole.operations) {
    const id = declared.parameters.find(({ name }: Json) => name === 'id')
    if (method === 'DELETE') t.ok(id.example === exampleId, `${operationId}: the example is not the caller`)
  }
}
