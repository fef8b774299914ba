/** Builds the parameters of each operation for OpenAPI: those of the path, of the query and the request headers. */
import { Type } from '@sinclair/typebox'
import { toWords } from '../../../lib/to-words.ts'
import { exampleId } from '../../../schemas/types.ts'
import type { Verb } from '../../access/index.ts'
import type { Parameter } from '../../openapi/operation.ts'
import { buildListParameters, buildSelectionParameters } from '../request/parameters.ts'
import type { ResolvedResource } from '../resolve.ts'

/** Converts a name such as `created_after` or `If-Match` to `CreatedAfter` or `IfMatch`. */
const toPascalCase = (name: string) =>
  name.replace(/(?:^|[_-])([a-z])/gi, (_, letter: string) => letter.toUpperCase())

/** Component names that differ from the name of the parameter, which is that of a schema or too short. */
const componentNames: Record<string, string> = { order: 'SortDirections', page: 'PageNumber' }

/** Returns the name in the components: parameters whose schema depends on the resource have its name too. */
function getComponentName(resource: ResolvedResource, name: string): string {
  const { singular, filters, ranges = [] } = resource
  if (ranges.includes(name.replace(/_(?:min|max)$/, ''))) return `${singular}${toPascalCase(name)}`
  if (filters.includes(name)) return `${singular}${toPascalCase(name)}Filter`
  const isOwn = ['sort', 'fields', 'include', 'search'].includes(name)
  return isOwn ? `${singular}${toPascalCase(name)}` : (componentNames[name] ?? toPascalCase(name))
}

function buildQuery(resource: ResolvedResource, verb: Verb): Parameter[] {
  if (verb !== 'list' && verb !== 'read') return []
  const { properties } = verb === 'list' ? buildListParameters(resource) : buildSelectionParameters(resource)
  return Object.entries(properties).map(([name, schema]) => ({
    component: getComponentName(resource, name),
    in: 'query',
    name,
    schema: schema['x-documented'] ?? schema,
  }))
}

const ID = Type.String({ format: 'uuid', description: 'The id of the resource', examples: [exampleId] })

const buildIdOrMe = (description: string, example: string) =>
  Type.String({
    format: 'uuid-or-me',
    minLength: 1,
    description: `${description}, or \`me\` for the caller`,
    examples: [example],
  })

/** A tool that sends the example must not replace or delete the caller, so that of PUT and DELETE is an id. */
function buildId({ singular, me }: ResolvedResource, verb: Verb): Parameter {
  const location = { in: 'path', name: 'id' } as const
  if (!me) return { component: 'Id', ...location, schema: ID }
  return verb === 'remove' || verb === 'replace'
    ? { component: `${singular}Id`, ...location, schema: buildIdOrMe('The id of the resource', exampleId) }
    : { component: `${singular}IdOrMe`, ...location, schema: buildIdOrMe('The id of the resource', 'me') }
}

function buildPath(resource: ResolvedResource, verb: Verb): Parameter[] {
  const { parent, singular } = resource
  const ids: Parameter[] = verb === 'list' || verb === 'create' ? [] : [buildId(resource, verb)]
  if (!parent) return ids
  const schema = parent.to.me ? buildIdOrMe(`The id of the ${toWords(parent.to.singular)}`, 'me') : ID
  const component = `${singular}${toPascalCase(parent.member)}`
  return [{ component, in: 'path', name: parent.member, schema }, ...ids]
}

const buildHeader = (
  name: string,
  description: string,
  example: string,
  component = toPascalCase(name),
): Parameter => ({
  component,
  in: 'header',
  name,
  schema: Type.String({ description, examples: [example] }),
})

const ifNoneMatch = buildHeader(
  'If-None-Match',
  'Entity tags that the client has; 304 if one is current',
  'W/"qHXEPvBzWe2L", "3-qHXEPvBzWe2L"',
)
const ifUnmodifiedSince = buildHeader(
  'If-Unmodified-Since',
  'HTTP date; ignored with If-Match',
  'Thu, 31 Dec 2099 23:59:59 GMT',
)
const writeHeaders = [
  buildHeader(
    'If-Match',
    'Entity tag of the resource as it was read, or `*`; 412 if it has changed since',
    '*',
  ),
  ifUnmodifiedSince,
]

const idempotencyKey: Parameter = {
  component: 'IdempotencyKey',
  in: 'header',
  name: 'Idempotency-Key',
  schema: Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: '^[!-~]+$',
    description:
      'Makes a retry safe: for 24 hours, requests with the same key and body get the same response, and the write ' +
      'happens once',
    examples: ['0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'],
  }),
}

const headers: Record<Verb, readonly Parameter[]> = {
  list: [
    ifNoneMatch,
    buildHeader('If-Match', '`*`; 412 for any tag, since the tag of a list is weak', '*', 'ListIfMatch'),
  ],
  read: [
    ifNoneMatch,
    buildHeader(
      'If-Modified-Since',
      'HTTP date; ignored with If-None-Match',
      'Sat, 21 Nov 2026 09:30:00 GMT',
    ),
    buildHeader('If-Match', 'Expected entity tag; 412 if the current one differs', '*', 'ReadIfMatch'),
    ifUnmodifiedSince,
  ],
  create: [idempotencyKey],
  replace: writeHeaders,
  update: [...writeHeaders, idempotencyKey],
  remove: writeHeaders,
}

/** Builds the parameters of an operation. */
export const buildParameters = (resource: ResolvedResource, verb: Verb): Parameter[] => [
  ...buildPath(resource, verb),
  ...buildQuery(resource, verb),
  ...headers[verb],
]
