/** What a collection's operations say of themselves in OpenAPI: parameters, headers, replies, by status. */
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import type { Verb } from '../../access/index.ts'
import { buildExample, fixTimestamps, pickDeclared } from '../../openapi/examples.ts'
import type { HeaderName } from '../../openapi/headers.ts'
import { commonFailures, describeResponse, type Example } from '../../openapi/replies.ts'
import type { Entity, Pagination, Representation, Shape } from '../../versioning/representation/types.ts'
import type { ResolvedResource } from '../resolve.ts'
import { bodyOf, pathOf, queryOf } from './inputs.ts'
import { descriptionOf, operationIdOf, summaryOf } from './summaries.ts'

export { inputOf } from './inputs.ts'

/** A resource's shape in a reply; where `selectable`, with the relations that `include` may add. */
export function shapeOf(resource: ResolvedResource, isSelectable: boolean): Shape {
  const shape = { type: resource.name, members: resource.schemas.read, selectable: isSelectable }
  if (!isSelectable) return shape
  const relations = Object.entries(resource.relations).map(([name, { to, many }]) => [
    name,
    { shape: shapeOf(to, false), many },
  ])
  return { ...shape, relations: Object.fromEntries(relations) }
}

/** Which failures each verb can end in, beside those that every route has. */
const failuresOf: Record<Verb, number[]> = {
  list: [412],
  read: [404, 412],
  create: [409, 413, 415, 422],
  replace: [404, 409, 412, 413, 415, 422, 428],
  update: [404, 409, 412, 413, 415, 422, 428],
  remove: [404, 409, 412, 428],
}

const headerOf = (description: string, example: string) =>
  Type.Optional(Type.String({ description, examples: [example] }))
const date = 'Sat, 21 Nov 2026 09:30:00 GMT'
const noneMatch = headerOf(
  'Entity tags that the client has; 304 where one still holds',
  'W/"qHXEPvBzWe2L", "3-qHXEPvBzWe2L"',
)
const sinceUnmodified = headerOf('An HTTP date; without If-Match', date)
const writeHeaders = {
  'If-Match': headerOf(
    'The entity tag that was read; 412 where the resource has changed since',
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
        'Names this write, so that it can be sent again when no answer came: for 24 hours, the same key and body are ' +
        'answered alike, and nothing is written twice',
      examples: ['0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'],
    }),
  ),
}

const headersOf: Record<Verb, Record<string, TSchema>> = {
  list: {
    'If-None-Match': noneMatch,
    'If-Match': headerOf('`*`; 412 for any tag, since the tag of a list is weak', '*'),
  },
  read: {
    'If-None-Match': noneMatch,
    'If-Modified-Since': headerOf('An HTTP date; without If-None-Match', date),
    'If-Match': headerOf(
      'The whole entity tag that is expected; 412 where it is another',
      '"3-qHXEPvBzWe2L"',
    ),
    'If-Unmodified-Since': sinceUnmodified,
  },
  create: keyHeader,
  replace: writeHeaders,
  update: { ...writeHeaders, ...keyHeader },
  remove: writeHeaders,
}

const entityOf = (resource: ResolvedResource, relations?: Entity['relations']): Entity => ({
  type: resource.name,
  members: buildExample(resource.schemas.read) as Entity['members'],
  ...(relations ? { relations } : {}),
})

const pages: Record<'cursor' | 'pages', Pagination> = {
  cursor: { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true },
  pages: { page: 1, limit: 20, total: 1, total_pages: 1 },
}

/** Replies of a verb by name: what they show, and how a version tells it. */
function toldOf(
  resource: ResolvedResource,
  verb: Verb,
  { one, many }: Representation,
): Record<string, [string, unknown]> {
  if (verb === 'list') {
    return {
      cursor: ['By cursors', many([entityOf(resource)], pages.cursor, {})],
      pages: ['By pages', many([entityOf(resource)], pages.pages, {})],
    }
  }
  const whole: [string, unknown] = ['All members', one(entityOf(resource), {})]
  const [relation] = Object.entries(resource.relations)
  if (verb !== 'read' || !relation) return { whole }
  const [name, { to, many: isMany }] = relation
  const related = { [name]: isMany ? [entityOf(to)] : entityOf(to) }
  const meta = isMany ? { includes: { [name]: { has_more: false, truncated: [] } } } : {}
  return { whole, included: [`With \`include=${name}\``, one(entityOf(resource, related), meta)] }
}

const examplesOf = (told: ReturnType<typeof toldOf>, schema: TSchema): Record<string, Example> =>
  Object.fromEntries(
    Object.entries(told).map(([name, [summary, value]]) => [
      name,
      { summary, value: pickDeclared(fixTimestamps(value), schema) },
    ]),
  )

/** The successful replies of a verb. */
function successOf(
  resource: ResolvedResource,
  verb: Verb,
  representation: Representation,
): Record<number, object> {
  const { schemas } = representation
  const told = (description: string, headers: readonly HeaderName[], schema: TSchema) =>
    describeResponse({
      description,
      headers,
      schema,
      examples: examplesOf(toldOf(resource, verb, representation), schema),
    })
  const unchanged = (headers: readonly HeaderName[]) => ({
    304: describeResponse({ description: 'What the client has is still what it would get', headers }),
  })
  switch (verb) {
    case 'list':
      return {
        200: told('A page', ['ETag', 'Link'], schemas.many(shapeOf(resource, true))),
        ...unchanged(['ETag', 'Link']),
      }
    case 'read':
      return {
        200: told('The resource', ['ETag', 'Last-Modified'], schemas.one(shapeOf(resource, true))),
        ...unchanged(['ETag', 'Last-Modified']),
      }
    case 'create':
      return {
        201: told(
          'Created',
          ['ETag', 'Location', 'Idempotency-Replayed'],
          schemas.one(shapeOf(resource, false)),
        ),
      }
    case 'remove':
      return { 204: describeResponse({ description: 'Removed' }) }
    case 'update':
      return {
        200: told('As it is now', ['ETag', 'Idempotency-Replayed'], schemas.one(shapeOf(resource, false))),
      }
    default:
      return { 200: told('As it is now', ['ETag'], schemas.one(shapeOf(resource, false))) }
  }
}

const JSON_TYPES = ['application/json', 'application/vnd.api+json']

/** The body that a verb takes, with an example of each form of it. */
function bodyContentOf(resource: ResolvedResource, verb: Verb, { schemas }: Representation) {
  if (verb !== 'create' && verb !== 'replace' && verb !== 'update') return undefined
  const schema = schemas.body(bodyOf(resource, verb), resource.name, verb !== 'create')
  const forms: TSchema[] = schema.anyOf ?? [schema]
  const examples = Object.fromEntries(
    forms.map((form) => [
      form.title,
      { summary: form.description ?? 'All members', value: buildExample(form) },
    ]),
  )
  const types = verb === 'update' ? [...JSON_TYPES, 'application/merge-patch+json'] : JSON_TYPES
  // The examples once, not beside each of the media types.
  const content = types.map((type, i) => [
    type,
    { schema: i === 0 ? { ...schema, 'x-examples': examples } : schema },
  ])
  return { content: Object.fromEntries(content) }
}

/** An operation as OpenAPI tells it. Validation is not Fastify's here: see `routes.ts`. */
export function describe(
  resource: ResolvedResource,
  verb: Verb,
  { representation, isOpen }: { representation: Representation; isOpen: boolean },
): FastifySchema {
  const body = bodyContentOf(resource, verb, representation)
  const parts = { params: pathOf(resource, verb), querystring: queryOf(resource, verb), body }
  const headers = headersOf[verb]
  return {
    tags: [resource.name],
    operationId: operationIdOf(resource, verb),
    summary: summaryOf(resource, verb),
    description: descriptionOf(resource, verb, isOpen),
    ...Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)),
    ...(Object.keys(headers).length > 0 ? { headers: Type.Object(headers) } : {}),
    response: successOf(resource, verb, representation),
    failures: [...commonFailures, ...failuresOf[verb], ...(resource.parent ? [404] : [])],
  }
}
