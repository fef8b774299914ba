/** Builds the OpenAPI description of each operation: parameters, body, responses and failures. */
import type { TObject } from '@sinclair/typebox'
import { exampleId } from '../../../schemas/types.ts'
import { getScope, type Verb } from '../../access/index.ts'
import { buildBodyExamples, buildFieldExamples, buildResponseExample } from '../../openapi/examples.ts'
import { commonFailures } from '../../openapi/failures.ts'
import type { HeaderName } from '../../openapi/headers.ts'
import { type Example, JSON_TYPES, type Operation, type OperationResponse } from '../../openapi/operation.ts'
import type { Entity, Pagination, Representation, Shape } from '../../versioning/representation/types.ts'
import type { OwnOperation, Row } from '../definition.ts'
import { toBodySchema } from '../request/body-schema.ts'
import type { ResolvedResource } from '../resolve.ts'
import { buildBody } from './inputs.ts'
import { buildParameters } from './parameters.ts'
import { describeAccess, getDescription, getOperationId, getSummary } from './summaries.ts'

/** Returns the shape of a resource in a response. A selectable one has the relations that `include` may add. */
export function buildResourceShape(resource: ResolvedResource, isSelectable: boolean): Shape {
  const shape = { type: resource.name, members: resource.schemas.read, selectable: isSelectable }
  if (!isSelectable || Object.keys(resource.relations).length === 0) return shape
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

const buildEntity = (
  resource: ResolvedResource,
  relations?: Entity['relations'],
  isCreated = false,
): Entity => ({
  type: resource.name,
  members: { ...buildFieldExamples(resource.schemas.read.properties, isCreated), id: exampleId },
  ...(relations ? { relations } : {}),
})

const pagination: Pagination = { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true }

/** Returns whether fields have another value in the response to the creation than afterwards. */
const hasCreationExamples = ({ schemas }: ResolvedResource) =>
  Object.values(schemas.read.properties).some(({ examples = [] }) => examples.length > 1)

/** Builds the example responses of a verb. */
function buildExamples(resource: ResolvedResource, verb: Verb, { one, many }: Representation): Example[] {
  const { singular } = resource
  if (verb === 'list') {
    const value = many([buildEntity(resource)], pagination)
    return [{ name: `${singular}Page`, key: 'cursor', value }]
  }
  if (verb === 'create' && hasCreationExamples(resource)) {
    const value = one(buildEntity(resource, undefined, true))
    return [{ name: singular, key: 'created', summary: 'With fields that only this response has', value }]
  }
  const whole = { name: singular, key: 'whole', value: one(buildEntity(resource)) }
  const relation = Object.entries(resource.relations).find(([, { many: isMany }]) => isMany)
  if (verb !== 'read' || !relation) return [whole]
  const [name, { to }] = relation
  const meta = { includes: { [name]: { has_more: false, truncated: [] } } }
  const value = one(buildEntity(resource, { [name]: [buildEntity(to)] }), meta)
  return [whole, { name: singular, key: name, summary: `With \`include=${name}\``, value }]
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
  if (verb === 'remove') return { 204: { component: 'Deleted', description: 'Deleted', headers } }
  const isRead = verb === 'list' || verb === 'read'
  const shape = buildResourceShape(resource, isRead)
  const schema = verb === 'list' ? representation.schemas.many(shape) : representation.schemas.one(shape)
  const examples = buildExamples(resource, verb, representation).map((example) => ({
    ...example,
    value: buildResponseExample(example.value, schema),
  }))
  const content = { schema, examples }
  if (verb === 'create') return { 201: { description: 'Created', headers, content } }
  if (!isRead) return { 200: { description: 'The changed resource', headers, content } }
  return {
    200: { description: verb === 'list' ? 'A page' : 'The resource', headers, content },
    304: {
      component: verb === 'list' ? 'PageNotModified' : 'NotModified',
      description: 'The representation that the client has is current',
      headers,
    },
  }
}

/** Builds the request body, with an example of each of its forms; undefined for a verb without a body. */
function buildRequestBody(
  resource: ResolvedResource,
  verb: Verb,
  { schemas }: Representation,
): Operation['body'] {
  if (verb !== 'create' && verb !== 'replace' && verb !== 'update') return undefined
  const schema = schemas.body(buildBody(resource, verb), resource.name, verb !== 'create')
  const types = verb === 'update' ? [...JSON_TYPES, 'application/merge-patch+json'] : JSON_TYPES
  return { schema, examples: buildBodyExamples(schema), types }
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
    parameters: buildParameters(resource, verb),
    ...(body && { body }),
    responses: buildResponses(resource, verb, representation),
    failures: [
      ...commonFailures,
      ...failures[verb],
      ...(resource.failures?.[verb] ?? []),
      ...(resource.parent ? [404] : []),
    ],
  }
}

/** Describes an own operation: it has the parameters of a PATCH, and responds as a POST. */
export function describeOwnOperation(
  resource: ResolvedResource,
  name: string,
  own: OwnOperation<Row>,
  representation: Representation,
): Operation {
  const { operationId, summary, description, access, body, response } = own
  const options = { representation, isOpen: false }
  const { body: _, ...create } = describeOperation(resource, 'create', options)
  const schema = body && representation.schemas.body(toBodySchema(body, 'create'), resource.name, true)
  return {
    ...create,
    operationId,
    summary,
    description: `${description}\n\n${describeAccess({ ...resource, access: { update: access } }, 'update', false)}`,
    parameters: buildParameters(resource, 'update'),
    ...(schema && { body: { schema, examples: buildBodyExamples(schema), types: JSON_TYPES } }),
    ...(response && { responses: { 201: buildOwnResponse(name, response, representation) } }),
    failures: [...commonFailures, ...failures.update],
  }
}

function buildOwnResponse(
  name: string,
  response: TObject,
  { one, schemas }: Representation,
): OperationResponse {
  const schema = schemas.one({ type: name, members: response, selectable: false })
  const value = one({ type: name, members: { ...buildFieldExamples(response.properties), id: exampleId } })
  const example = { name: response.title ?? name, key: 'whole', value: buildResponseExample(value, schema) }
  return {
    description: 'Created',
    headers: ['Idempotency-Replayed'],
    content: { schema, examples: [example] },
  }
}
