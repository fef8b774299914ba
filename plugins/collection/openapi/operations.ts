/** Builds the OpenAPI description of each operation: parameters, body, responses and failures. */
import { type TObject, Type } from '@sinclair/typebox'
import { exampleId } from '../../../schemas/types.ts'
import { getScope, type Verb } from '../../access/index.ts'
import { buildFieldExamples, buildResponseExample, type Example } from '../../openapi/examples.ts'
import { type HeaderName, pickHeaders } from '../../openapi/headers.ts'
import { commonFailures, type DocumentedResponse, NO_QUERY } from '../../openapi/operation.ts'
import type { Fields } from '../../validation/schema-functions.ts'
import type {
  Entity,
  Pagination,
  Representation,
  SentBody,
  Shape,
} from '../../versioning/representation/types.ts'
import type { Mode, OwnOperation, Row } from '../definition.ts'
import { buildBody } from '../request/body-schema.ts'
import type { Resource } from '../resource.ts'
import { buildParameters } from './parameters.ts'
import { describeAccess, getDescription, getOperationId, getSummary } from './summaries.ts'

/** Returns the shape of a resource in a response. A selectable one has the relations that `include` may add. */
export function buildResourceShape(resource: Resource, isSelectable: boolean): Shape {
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

const buildEntity = (resource: Resource, relations?: Entity['relations'], isCreated = false): Entity => ({
  type: resource.name,
  members: { ...buildFieldExamples(resource.schemas.read.properties, isCreated), id: exampleId },
  ...(relations ? { relations } : {}),
})

const pagination: Pagination = { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true }

/** Returns whether fields have another value in the response to the creation than afterwards. */
const hasCreationExamples = ({ schemas }: Resource) =>
  Object.values(schemas.read.properties).some(({ examples = [] }) => examples.length > 1)

/** Builds the example responses of a verb, by their names. */
function buildExamples(
  resource: Resource,
  verb: Verb,
  { one, many }: Representation,
): Record<string, Example> {
  const { singular } = resource
  if (verb === 'list')
    return { [`${singular}Page.cursor`]: { value: many([buildEntity(resource)], pagination) } }
  if (verb === 'create' && hasCreationExamples(resource)) {
    const value = one(buildEntity(resource, undefined, true))
    return { [`${singular}.created`]: { summary: 'With fields that only this response has', value } }
  }
  const whole = { [`${singular}.whole`]: { value: one(buildEntity(resource)) } }
  const relation = Object.entries(resource.relations).find(([, { many: isMany }]) => isMany)
  if (verb !== 'read' || !relation) return whole
  const [name, { to }] = relation
  const meta = { includes: { [name]: { has_more: false, truncated: [] } } }
  const value = one(buildEntity(resource, { [name]: [buildEntity(to)] }), meta)
  return { ...whole, [`${singular}.${name}`]: { summary: `With \`include=${name}\``, value } }
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
  resource: Resource,
  verb: Verb,
  representation: Representation,
): Record<number, DocumentedResponse> {
  const headers = pickHeaders(...responseHeaders[verb])
  if (verb === 'remove') {
    return { 204: { 'x-component': 'Deleted', description: 'Deleted', headers, type: 'null' } }
  }
  const isRead = verb === 'list' || verb === 'read'
  const shape = buildResourceShape(resource, isRead)
  const schema = verb === 'list' ? representation.schemas.many(shape) : representation.schemas.one(shape)
  const examples = Object.entries(buildExamples(resource, verb, representation)).map(([name, example]) => [
    name,
    { ...example, value: buildResponseExample(example.value, schema) },
  ])
  const content = { 'application/json': { schema, examples: Object.fromEntries(examples) } }
  if (verb === 'create') return { 201: { description: 'Created', headers, content } }
  if (!isRead) return { 200: { description: 'The changed resource', headers, content } }
  return {
    200: { description: verb === 'list' ? 'A page' : 'The resource', headers, content },
    304: {
      'x-component': verb === 'list' ? 'PageNotModified' : 'NotModified',
      description: 'The representation that the client has is current',
      headers,
      type: 'null',
    },
  }
}

/** Builds the schema of the request body of a verb that has one. */
export const buildBodySchema = (resource: Resource, verb: Mode, { schemas }: Representation) =>
  // It validates the fields of this resource, whose names its definition knows.
  Type.Unsafe<SentBody<Fields>>(schemas.body(buildBody(resource, verb), resource.name, verb !== 'create'))

/** Describes the accepted credentials: an API key with the scope of the verb, or a Bearer token. */
function describeSecurity({ name, bearerOnly }: Resource, verb: Verb, isOpen: boolean) {
  const anonymous = isOpen ? [{}] : []
  if (bearerOnly) return { security: [{ bearer: [] }, ...anonymous] }
  return {
    // OpenAPI 3.1 permits scopes in the array of any scheme, but tools expect them for OAuth only.
    'x-required-scopes': [getScope(name, verb)],
    security: [{ apiKey: [] }, { bearer: [] }, ...anonymous],
  }
}

/**
 * Builds what every route of a resource has in its schema: the path, the headers and the responses, by which Fastify
 * validates requests and serializes responses, and the texts of the documents. The route adds its query string and its body.
 * @param isOpen whether it may be called without credentials
 */
export const buildRouteSchema = (
  resource: Resource,
  verb: Verb,
  { representation, isOpen }: { representation: Representation; isOpen: boolean },
) => ({
  operationId: getOperationId(resource, verb),
  summary: getSummary(resource, verb),
  tags: [resource.name],
  description: getDescription(resource, verb, isOpen),
  ...describeSecurity(resource, verb, isOpen),
  ...buildParameters(resource, verb),
  querystring: NO_QUERY,
  response: buildResponses(resource, verb, representation),
  failures: [
    ...commonFailures,
    ...failures[verb],
    ...(resource.failures?.[verb] ?? []),
    ...(resource.parent ? [404] : []),
  ],
})

/** Builds the same for an own operation: it has the parameters of a PATCH, and responds as a POST. */
export function buildOwnRouteSchema(
  resource: Resource,
  name: string,
  { operationId, summary, description, access, response }: OwnOperation<Row>,
  representation: Representation,
) {
  const accessText = describeAccess({ ...resource, access: { update: access } }, 'update', false)
  return {
    ...buildRouteSchema(resource, 'create', { representation, isOpen: false }),
    ...buildParameters(resource, 'update'),
    operationId,
    summary,
    description: `${description}\n\n${accessText}`,
    ...(response && { response: { 201: buildOwnResponse(name, response, representation) } }),
    failures: [...commonFailures, ...failures.update],
  }
}

function buildOwnResponse(
  name: string,
  response: TObject,
  { one, schemas }: Representation,
): DocumentedResponse {
  const schema = schemas.one({ type: name, members: response, selectable: false })
  const value = one({ type: name, members: { ...buildFieldExamples(response.properties), id: exampleId } })
  const example = { value: buildResponseExample(value, schema) }
  return {
    description: 'Created',
    headers: pickHeaders('Idempotency-Replayed'),
    content: { 'application/json': { schema, examples: { [`${response.title ?? name}.whole`]: example } } },
  }
}
