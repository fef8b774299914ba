/** Builds the OpenAPI description of each operation: parameters, headers, body, responses and failures. */
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import type { Verb } from '../../access/index.ts'
import { buildExample, fixTimestamps, pickDeclared } from '../../openapi/examples.ts'
import type { HeaderName } from '../../openapi/headers.ts'
import { commonFailures, describeResponse, type Example } from '../../openapi/replies.ts'
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

const buildHeader = (description: string, example: string) =>
  Type.Optional(Type.String({ description, examples: [example] }))
const DATE_EXAMPLE = 'Sat, 21 Nov 2026 09:30:00 GMT'
const noneMatch = buildHeader(
  'Entity tags that the client has; 304 if one is current',
  'W/"qHXEPvBzWe2L", "3-qHXEPvBzWe2L"',
)
const sinceUnmodified = buildHeader('HTTP date; ignored with If-Match', DATE_EXAMPLE)
const writeHeaders = {
  'If-Match': buildHeader(
    'Entity tag of the resource as it was read; 412 if it has changed since',
    '"3-qHXEPvBzWe2L"',
  ),
  'If-Unmodified-Since': sinceUnmodified,
}

const keyHeader = {
  'Idempotency-Key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[!-~]+$',
      description:
        'Makes a retry safe: for 24 hours, requests with the same key and body get the same response, and the write ' +
        'happens once',
      examples: ['0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'],
    }),
  ),
}

const requestHeaders: Record<Verb, Record<string, TSchema>> = {
  list: {
    'If-None-Match': noneMatch,
    'If-Match': buildHeader('`*`; 412 for any tag, since the tag of a list is weak', '*'),
  },
  read: {
    'If-None-Match': noneMatch,
    'If-Modified-Since': buildHeader('HTTP date; ignored with If-None-Match', DATE_EXAMPLE),
    'If-Match': buildHeader('Expected entity tag; 412 if the current one differs', '"3-qHXEPvBzWe2L"'),
    'If-Unmodified-Since': sinceUnmodified,
  },
  create: keyHeader,
  replace: writeHeaders,
  update: { ...writeHeaders, ...keyHeader },
  remove: writeHeaders,
}

const buildEntity = (resource: ResolvedResource, relations?: Entity['relations']): Entity => ({
  type: resource.name,
  members: buildExample(resource.schemas.read) as Entity['members'],
  ...(relations ? { relations } : {}),
})

const pages: Record<'cursor' | 'pages', Pagination> = {
  cursor: { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true },
  pages: { page: 1, limit: 20, total: 1, total_pages: 1 },
}

/** Builds the example responses of a verb by name: the summary and the body of each. */
function buildBodies(
  resource: ResolvedResource,
  verb: Verb,
  { one, many }: Representation,
): Record<string, [string, unknown]> {
  if (verb === 'list') {
    return {
      cursor: ['By cursor', many([buildEntity(resource)], pages.cursor, {})],
      pages: ['By page number', many([buildEntity(resource)], pages.pages, {})],
    }
  }
  const whole: [string, unknown] = ['All fields', one(buildEntity(resource), {})]
  const [relation] = Object.entries(resource.relations)
  if (verb !== 'read' || !relation) return { whole }
  const [name, { to, many: isMany }] = relation
  const related = { [name]: isMany ? [buildEntity(to)] : buildEntity(to) }
  const meta = isMany ? { includes: { [name]: { has_more: false, truncated: [] } } } : {}
  return { whole, included: [`With \`include=${name}\``, one(buildEntity(resource, related), meta)] }
}

const buildExamples = (bodies: ReturnType<typeof buildBodies>, schema: TSchema): Record<string, Example> =>
  Object.fromEntries(
    Object.entries(bodies).map(([name, [summary, value]]) => [
      name,
      { summary, value: pickDeclared(fixTimestamps(value), schema) },
    ]),
  )

/** Builds the successful responses of a verb, by status. */
function buildSuccess(
  resource: ResolvedResource,
  verb: Verb,
  representation: Representation,
): Record<number, object> {
  const { schemas } = representation
  const respond = (description: string, headers: readonly HeaderName[], schema: TSchema) =>
    describeResponse({
      description,
      headers,
      schema,
      examples: buildExamples(buildBodies(resource, verb, representation), schema),
    })
  const notModified = (headers: readonly HeaderName[]) => ({
    304: describeResponse({ description: 'The representation that the client has is current', headers }),
  })
  switch (verb) {
    case 'list':
      return {
        200: respond('A page', ['ETag', 'Link'], schemas.many(buildResourceShape(resource, true))),
        ...notModified(['ETag', 'Link']),
      }
    case 'read':
      return {
        200: respond(
          'The resource',
          ['ETag', 'Last-Modified'],
          schemas.one(buildResourceShape(resource, true)),
        ),
        ...notModified(['ETag', 'Last-Modified']),
      }
    case 'create':
      return {
        201: respond(
          'Created',
          ['ETag', 'Location', 'Idempotency-Replayed'],
          schemas.one(buildResourceShape(resource, false)),
        ),
      }
    case 'remove':
      return { 204: describeResponse({ description: 'Deleted' }) }
    case 'update':
      return {
        200: respond(
          'The changed resource',
          ['ETag', 'Idempotency-Replayed'],
          schemas.one(buildResourceShape(resource, false)),
        ),
      }
    default:
      return {
        200: respond('The changed resource', ['ETag'], schemas.one(buildResourceShape(resource, false))),
      }
  }
}

const JSON_TYPES = ['application/json', 'application/vnd.api+json']

/** Builds the content of a request body, with an example of each form; undefined for a verb without a body. */
function buildContent(resource: ResolvedResource, verb: Verb, { schemas }: Representation) {
  if (verb !== 'create' && verb !== 'replace' && verb !== 'update') return undefined
  const schema = schemas.body(buildBody(resource, verb), resource.name, verb !== 'create')
  const forms: TSchema[] = schema.anyOf ?? [schema]
  const examples = Object.fromEntries(
    forms.map((form) => [
      form.title,
      { summary: form.description ?? 'All fields', value: buildExample(form) },
    ]),
  )
  const types = verb === 'update' ? [...JSON_TYPES, 'application/merge-patch+json'] : JSON_TYPES
  // Only the first media type has the examples, to keep the document small.
  const content = types.map((type, i) => [
    type,
    { schema: i === 0 ? { ...schema, 'x-examples': examples } : schema },
  ])
  return { content: Object.fromEntries(content) }
}

/** Builds the schema of a route. Fastify does not validate with it: the handlers do (see `plugin.ts`). */
export function describeOperation(
  resource: ResolvedResource,
  verb: Verb,
  { representation, isOpen }: { representation: Representation; isOpen: boolean },
): FastifySchema {
  const body = buildContent(resource, verb, representation)
  const parts = { params: buildPath(resource, verb), querystring: buildQuery(resource, verb), body }
  const headers = requestHeaders[verb]
  return {
    tags: [resource.name],
    operationId: getOperationId(resource, verb),
    summary: getSummary(resource, verb),
    description: getDescription(resource, verb, isOpen),
    ...Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)),
    ...(Object.keys(headers).length > 0 ? { headers: Type.Object(headers) } : {}),
    response: buildSuccess(resource, verb, representation),
    failures: [...commonFailures, ...failures[verb], ...(resource.parent ? [404] : [])],
  }
}
