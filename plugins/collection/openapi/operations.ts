/** Builds the OpenAPI description of each operation: parameters, headers, body, responses and failures. */
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { exampleId } from '../../../schemas/types.ts'
import { getScope, type Verb } from '../../access/index.ts'
import { buildExample, buildFieldExamples, buildResponseExample } from '../../openapi/examples.ts'
import { commonFailures } from '../../openapi/failures.ts'
import type { HeaderName } from '../../openapi/headers.ts'
import type { Example, Operation } from '../../openapi/operation.ts'
import type { Entity, Pagination, Representation, Shape } from '../../versioning/representation/types.ts'
import type { ResolvedResource } from '../resolve.ts'
import { buildBody, buildPath, buildQuery } from './inputs.ts'
import { getDescription, getOperationId, getSummary } from './summaries.ts'

/** Returns the shape of a resource in a response. A selectable one has the relations that `include` may add. */
export function buildResourceShape(resource: ResolvedResource, isSelectable: boolean): Shape {
  const shape = { type: resource.name, members: resource.schemas.read, selectable: isSelectable }
  if (!isSelectable) return shape
  const relations = Object.entries(resource.relations).map(([name, { to, many }]) => [
    name,
    { shape: buildResourceShape(to, false), many },
  ])
  return { ...shape, relations: Object.fromEntries(relations) }
}

/** The statuses of failures, in addition to those of every route. */
const failures: Record<Verb, number[]> = {
  list: [412],
  read: [404, 412],
  create: [409, 413, 415, 422],
  replace: [404, 409, 412, 413, 415, 422, 428],
  update: [404, 409, 412, 413, 415, 422, 428],
  remove: [404, 409, 412, 428],
}

const header = (description: string, example: string) => Type.String({ description, examples: [example] })
const DATE_EXAMPLE = 'Sat, 21 Nov 2026 09:30:00 GMT'
const noneMatch = header(
  'Entity tags that the client has; 304 if one is current',
  'W/"qHXEPvBzWe2L", "3-qHXEPvBzWe2L"',
)
const sinceUnmodified = header('HTTP date; ignored with If-Match', DATE_EXAMPLE)
const writeHeaders = {
  'If-Match': header(
    'Entity tag of the resource as it was read; 412 if it has changed since',
    '"3-qHXEPvBzWe2L"',
  ),
  'If-Unmodified-Since': sinceUnmodified,
}

const keyHeader = {
  'Idempotency-Key': Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: '^[!-~]+$',
    description:
      'Makes a retry safe: for 24 hours, requests with the same key and body get the same response, and the write ' +
      'happens once',
    examples: ['0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'],
  }),
}

const requestHeaders: Record<Verb, TProperties> = {
  list: {
    'If-None-Match': noneMatch,
    'If-Match': header('`*`; 412 for any tag, since the tag of a list is weak', '*'),
  },
  read: {
    'If-None-Match': noneMatch,
    'If-Modified-Since': header('HTTP date; ignored with If-None-Match', DATE_EXAMPLE),
    'If-Match': header('Expected entity tag; 412 if the current one differs', '"3-qHXEPvBzWe2L"'),
    'If-Unmodified-Since': sinceUnmodified,
  },
  create: keyHeader,
  replace: writeHeaders,
  update: { ...writeHeaders, ...keyHeader },
  remove: writeHeaders,
}

const buildEntity = (resource: ResolvedResource, relations?: Entity['relations']): Entity => ({
  type: resource.name,
  members: { ...buildFieldExamples(resource.schemas.read.properties), id: exampleId },
  ...(relations ? { relations } : {}),
})

const pages: Record<'cursor' | 'pages', Pagination> = {
  cursor: { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true },
  pages: { page: 1, limit: 20, total: 1, total_pages: 1 },
}

/** Builds the example responses of a verb by name. */
function buildExamples(
  resource: ResolvedResource,
  verb: Verb,
  { one, many }: Representation,
): Record<string, Example> {
  if (verb === 'list') {
    return {
      cursor: { summary: 'By cursor', value: many([buildEntity(resource)], pages.cursor) },
      pages: { summary: 'By page number', value: many([buildEntity(resource)], pages.pages) },
    }
  }
  const whole = { summary: 'All fields', value: one(buildEntity(resource)) }
  const [relation] = Object.entries(resource.relations)
  if (verb !== 'read' || !relation) return { whole }
  const [name, { to, many: isMany }] = relation
  const related = { [name]: isMany ? [buildEntity(to)] : buildEntity(to) }
  const meta = isMany ? { includes: { [name]: { has_more: false, truncated: [] } } } : {}
  const included = { summary: `With \`include=${name}\``, value: one(buildEntity(resource, related), meta) }
  return { whole, included }
}

/** The headers of successful responses. */
const responseHeaders: Record<Verb, readonly HeaderName[]> = {
  list: ['ETag', 'Link'],
  read: ['ETag', 'Last-Modified'],
  create: ['ETag', 'Location', 'Idempotency-Replayed'],
  replace: ['ETag'],
  update: ['ETag', 'Idempotency-Replayed'],
  remove: [],
}

/** Builds the successful responses of a verb, by status. */
function buildResponses(
  resource: ResolvedResource,
  verb: Verb,
  representation: Representation,
): Operation['responses'] {
  const headers = responseHeaders[verb]
  if (verb === 'remove') return { 204: { description: 'Deleted', headers } }
  const isRead = verb === 'list' || verb === 'read'
  const shape = buildResourceShape(resource, isRead)
  const schema = verb === 'list' ? representation.schemas.many(shape) : representation.schemas.one(shape)
  const examples = Object.entries(buildExamples(resource, verb, representation)).map(
    ([name, { summary, value }]) => [name, { summary, value: buildResponseExample(value, schema) }],
  )
  const content = { schema, examples: Object.fromEntries(examples) }
  if (verb === 'create') return { 201: { description: 'Created', headers, content } }
  if (!isRead) return { 200: { description: 'The changed resource', headers, content } }
  return {
    200: { description: verb === 'list' ? 'A page' : 'The resource', headers, content },
    304: { description: 'The representation that the client has is current', headers },
  }
}

const JSON_TYPES = ['application/json', 'application/vnd.api+json']

/** Builds the request body, with an example of each of its forms; undefined for a verb without a body. */
function buildRequestBody(
  resource: ResolvedResource,
  verb: Verb,
  { schemas }: Representation,
): Operation['body'] {
  if (verb !== 'create' && verb !== 'replace' && verb !== 'update') return undefined
  const schema = schemas.body(buildBody(resource, verb), resource.name, verb !== 'create')
  const forms: TSchema[] = schema.anyOf ?? [schema]
  const examples = forms.map((form) => [form.title, { summary: 'All fields', value: buildExample(form) }])
  const types = verb === 'update' ? [...JSON_TYPES, 'application/merge-patch+json'] : JSON_TYPES
  return { schema, examples: Object.fromEntries(examples), types }
}

/** Describes the accepted credentials: an API key with the scope of the verb, or a Bearer token. */
function describeSecurity({ name, bearerOnly }: ResolvedResource, verb: Verb, isOpen: boolean) {
  const anonymous = isOpen ? [{}] : []
  if (bearerOnly) return { security: [{ bearer: [] }, ...anonymous] }
  return {
    // OpenAPI 3.1 permits scopes in the array of any scheme, but tools expect them for OAuth only.
    'x-required-scopes': [getScope(name, verb)],
    security: [{ apiKey: [] }, { bearer: [] }, ...anonymous],
  }
}

/** @param isOpen whether it may be called without credentials */
export function describeOperation(
  resource: ResolvedResource,
  verb: Verb,
  { representation, isOpen }: { representation: Representation; isOpen: boolean },
): Operation {
  const body = buildRequestBody(resource, verb, representation)
  return {
    operationId: getOperationId(resource, verb),
    summary: getSummary(resource, verb),
    tags: [resource.name],
    description: getDescription(resource, verb, isOpen),
    ...describeSecurity(resource, verb, isOpen),
    parameters: {
      path: buildPath(resource, verb),
      query: buildQuery(resource, verb),
      header: requestHeaders[verb],
    },
    ...(body && { body }),
    responses: buildResponses(resource, verb, representation),
    failures: [...commonFailures, ...failures[verb], ...(resource.parent ? [404] : [])],
  }
}
