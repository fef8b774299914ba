/** Builds the schema of each route of a resource: texts, parameters, body, responses and failures. */
import { getIncludingScope, toGuard } from '@resource-api/api/access'
import {
  buildExample,
  buildFieldExamples,
  commonFailures,
  type DocumentedResponse,
  type HeaderName,
  pickHeaders,
  toWords,
  withArticle,
} from '@resource-api/api/documents'
import {
  type Entity,
  type Pagination,
  type Result,
  type Shape,
  toFieldsSchema,
  toResultSchema,
} from '@resource-api/api/results'
import { CALLER, type Condition, formatWanted, isPath, type Rule, type Verb } from '@resource-api/api/rules'
import { exampleId } from '@resource-api/api/schemas'
import type { Fields } from '@resource-api/api/validation'
import { EXPORT_TYPES, type ResourceWriter, STREAM_TYPES } from '@resource-api/api/versions'
import { getIdType, type RowId } from '@resource-api/database/key'
import { roles } from '@resource-api/database/roles'
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyContextConfig, FastifyInstance, FastifySchema } from 'fastify'
import { listConflicts } from '../conflicts.ts'
import { writeCsvExample } from '../csv.ts'
import type { ActionOptions, Mode, RouteTexts } from '../definition/code.ts'
import type { Resource } from '../definition/resource.ts'
import { buildBody } from '../request/body-schema.ts'
import { createNotFound } from '../request/resource-address.ts'
import { buildParameters } from './parameters.ts'

interface VerbTexts {
  /** The usual term for the verb in an operationId. */
  name: string
  /** The summary, before the name of the resource. */
  summary: string
  explanation: string
  headers: readonly HeaderName[]
  /** The statuses of failures, in addition to those of every route. */
  failures: readonly number[]
}

const VERBS: Record<Verb, VerbTexts> = {
  list: {
    name: 'list',
    summary: 'List',
    explanation:
      'Paginated by cursor or, with `page`, by page number with a total. Omits resources that the caller may not read.',
    headers: ['ETag', 'Link'],
    failures: [412],
  },
  read: {
    name: 'get',
    summary: 'Read',
    explanation: 'Returns all fields, or those named in `fields`.',
    headers: ['ETag', 'Last-Modified'],
    failures: [404, 412],
  },
  create: {
    name: 'create',
    summary: 'Create',
    explanation: 'The server generates the id. Read-only fields are refused.',
    headers: ['ETag', 'Location', 'Idempotency-Replayed'],
    failures: [422],
  },
  replace: {
    name: 'replace',
    summary: 'Replace',
    explanation:
      'Absent fields are set to their defaults or, where described, kept. Read-only fields are ignored, so a resource can be sent as it was read.',
    headers: ['ETag'],
    failures: [404, 412, 422],
  },
  update: {
    name: 'update',
    summary: 'Change some fields of',
    explanation:
      'Applies a JSON Merge Patch (RFC 7396): only the sent fields change, and null clears a field.',
    headers: ['ETag', 'Idempotency-Replayed'],
    failures: [404, 412, 422],
  },
  remove: {
    name: 'delete',
    summary: 'Delete',
    explanation: 'Deletes the resource. Deleting it again is 404.',
    headers: [],
    failures: [404, 412],
  },
}

/** For resources whose lists have no page numbers. */
const CURSOR_LIST = 'Paginated by cursor. Omits resources that the caller may not read.'

/** Links lead to the sections of the guide, in which the page has the documents. */
const EXPORT_NOTE = 'Also returns all rows as CSV or NDJSON: [exports](#exports).'

function describeCondition(condition: Condition): string {
  const owners: string[] = []
  const values: string[] = []
  for (const [field, value] of Object.entries(condition)) {
    if (value !== CALLER) values.push(`\`${field}\` ${formatWanted(value)}`)
    else owners.push(isPath(field) ? `the caller's own by \`${field}\`` : "the caller's own")
  }
  return [owners.join(' and '), ...(values.length > 0 ? [`with ${values.join(' and ')}`] : [])]
    .join(' ')
    .trim()
}

/** Describes the rows that a rule permits. */
export const describeRule = (rule: Rule = false) =>
  typeof rule === 'boolean' ? (rule ? 'all' : 'none') : rule.map(describeCondition).join(', or ')

/** Describes the scopes that the list and the read of a collection need for related resources. */
function describeIncluding({ operation }: FastifyContextConfig): { needed: string; note: string } {
  const { context, name = '' } = operation?.of ?? {}
  const relations = Object.entries(['list', 'read'].includes(name) ? (context?.resource.relations ?? {}) : {})
  const ofBearers = relations.flatMap(([relation, { to }]) => (to.bearerOnly ? [relation] : []))
  return {
    needed: relations.length === 0 ? '' : ', and for `include` the `read` scope of each included resource',
    note: ofBearers.length === 0 ? '' : ` A Bearer token is required to include ${ofBearers.join(', ')}.`,
  }
}

/** Adds to the schema of a route, for the documents, who may call it and on which rows. A Bearer token has all scopes. */
export function describeAccess(
  { guards, scopes }: FastifyInstance,
  schema: FastifySchema,
  config: FastifyContextConfig,
): FastifySchema {
  const { access, isOpen = false, operation } = config
  const guard = access === undefined || schema.security ? undefined : toGuard(guards, access)
  if (!guard) return schema
  const { credential, rules } = guard
  const byRole = `By role: ${roles
    .toReversed()
    .map((role) => `${role}: ${describeRule(rules[role])}`)
    .join('; ')}.`
  // OpenAPI 3.1 permits scopes in the array of any scheme, but tools expect them for OAuth only.
  const security = [...(credential === null ? [] : [{ apiKey: [] }]), { bearer: [] }, ...(isOpen ? [{}] : [])]
  const describe = (text: string) => [schema.description ?? [], text].flat().join('\n\n')
  if (credential === null) {
    const description = describe(`Requires a Bearer token; API keys are not accepted. ${byRole}`)
    return { ...schema, description, security }
  }
  const including = getIncludingScope(credential)
  const or = including !== undefined && scopes.has(including) ? ` or \`${including}\`, which includes it` : ''
  const { needed, note } = describeIncluding(config)
  const noExport = operation?.of?.name === 'list' ? ', but no export' : ''
  const open = isOpen ? ` Without credentials: ${describeRule(rules.anonymous)}${noExport}.` : ''
  return {
    ...schema,
    description: describe(
      `An API key needs the scope \`${credential}\`${or}${needed}.${note} ${byRole}${open}`,
    ),
    security,
    'x-required-scopes': [credential],
  }
}

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

const toRowId = (value: unknown): RowId => (typeof value === 'number' ? value : String(value))

/** Returns the id of examples. */
function getExampleId({ rowParts: { key }, schemas }: Resource): RowId {
  const { id } = schemas.read.properties
  return getIdType(key) === 'uuid' || !id ? exampleId : toRowId(buildExample(id))
}

const buildEntity = (resource: Resource, relations?: Entity['relations'], isCreated = false): Entity => ({
  type: resource.name,
  members: { ...buildFieldExamples(resource.schemas.read.properties, isCreated), id: getExampleId(resource) },
  ...(relations ? { relations } : {}),
})

const pagination: Pagination = { cursor: 'eyJhZnRlciI6WyIyMDI2Il19', has_more: true }

/** Returns the examples of a response: results, which the version puts into its envelope. */
function buildExamples(resource: Resource, verb: Verb): Record<string, { summary?: string; value: Result }> {
  const { relations, schemas, singular } = resource
  if (verb === 'list') {
    return { [`${singular}Page.cursor`]: { value: { entities: [buildEntity(resource)], pagination } } }
  }
  // Fields may have another value in the response to the creation than afterwards.
  const hasOthers = Object.values(schemas.read.properties).some(({ examples = [] }) => examples.length > 1)
  if (verb === 'create' && hasOthers) {
    const value = { entity: buildEntity(resource, undefined, true) }
    return { [`${singular}.created`]: { summary: 'With fields that only this response has', value } }
  }
  const whole = { [`${singular}.whole`]: { value: { entity: buildEntity(resource) } } }
  const relation = Object.entries(relations).find(([, { many: isMany }]) => isMany)
  if (verb !== 'read' || !relation) return whole
  const [name, { to }] = relation
  const meta = { includes: { [name]: { has_more: false, truncated: [] } } }
  const value = { entity: buildEntity(resource, { [name]: [buildEntity(to)] }), meta }
  return { ...whole, [`${singular}.${name}`]: { summary: `With \`include=${name}\``, value } }
}

function buildResponses(resource: Resource, verb: Verb): Record<number, DocumentedResponse> {
  const headers = pickHeaders(...VERBS[verb].headers)
  if (verb === 'remove') {
    return { 204: { 'x-component': 'Deleted', description: 'Deleted', headers, type: 'null' } }
  }
  const isRead = verb === 'list' || verb === 'read'
  const shape = buildResourceShape(resource, isRead)
  const content: DocumentedResponse['content'] = {
    'application/json': {
      schema: toResultSchema(shape, verb === 'list'),
      examples: buildExamples(resource, verb),
    },
  }
  const isExport = verb === 'list' && isExported(resource)
  if (verb === 'create') return { 201: { description: 'Created', headers, content } }
  if (!isRead) return { 200: { description: 'The changed resource', headers, content } }
  return {
    200: {
      description: verb === 'list' ? 'A page' : 'The resource',
      headers: { ...headers, ...(isExport && pickHeaders('Content-Disposition')) },
      content,
    },
    304: {
      'x-component': verb === 'list' ? 'PageNotModified' : 'NotModified',
      description: 'The representation that the client has is current',
      headers,
      type: 'null',
    },
  }
}

/** Returns whether the list is available as an export. */
const isExported = ({ streams = EXPORT_TYPES }: Resource) => streams.includes('csv')

/**
 * Returns the media types of an export, each with one row as its example. They stand in `x-export`: as media types of the
 * response, they would give the lists of generated clients a union with text.
 */
function buildExportExamples(resource: Resource, writer: ResourceWriter) {
  const entity = buildEntity(resource)
  const row = writer.writeExample(buildResourceShape(resource, false), entity)
  const { schemas } = writer.mappings[resource.name] ?? resource
  const members = writer.members(entity)
  const cells = Object.fromEntries(Object.keys(schemas.read.properties).map((name) => [name, members[name]]))
  return {
    [STREAM_TYPES.ndjson]: { example: `${row}\n` },
    [STREAM_TYPES.csv]: { example: writeCsvExample(cells) },
  }
}

export const buildBodySchema = (resource: Resource, mode: Mode) =>
  // It validates the fields of this resource, whose names its definition knows.
  Type.Unsafe<Fields>(
    toFieldsSchema(buildBody(resource, mode), {
      type: resource.name,
      addressed: mode !== 'create',
      id: resource.schemas.read.properties.id,
      mode,
    }),
  )

/**
 * Builds what every route of a resource has in its schema: the path, the headers and the responses, by which Fastify
 * validates requests and serializes responses, and the texts of the documents. The route adds its query string and its body.
 */
export function buildRouteSchema(
  resource: Resource,
  verb: Verb,
  resourceWriter: ResourceWriter,
  texts: RouteTexts = {},
) {
  const { name, singular, plural, parent } = resource
  const { name: term, summary, explanation, failures } = VERBS[verb]
  const isList = verb === 'list'
  const isMember = !isList && verb !== 'create'
  const addressed = isMember || !parent ? resource : parent.to
  const description = [
    isList && resource.pagination === 'cursor' ? CURSOR_LIST : explanation,
    texts.description,
    isList && isExported(resource) ? EXPORT_NOTE : undefined,
  ]
  return {
    operationId: `${term}${isList ? plural : singular}`,
    summary: `${summary} ${isList ? toWords(plural) : withArticle(toWords(singular))}`,
    tags: [name],
    description: description.filter((text) => text !== undefined).join('\n\n'),
    ...buildParameters(resource, verb),
    response: buildResponses(resource, verb),
    ...(isList && isExported(resource) && { 'x-export': buildExportExamples(resource, resourceWriter) }),
    failures: [...commonFailures, ...failures, ...(texts.failures ?? []), ...(parent ? [404] : [])],
    conflicts: [...(texts.conflicts ?? []), ...listConflicts(resource, verb, resourceWriter.mappings)],
    messages: { 404: createNotFound(addressed, getExampleId(addressed)).message },
  }
}

/** Builds the same for an action: it has the parameters of a PATCH, and responds as a POST. */
export function buildActionSchema(
  resource: Resource,
  name: string,
  { operationId, summary, description, response }: ActionOptions,
  resourceWriter: ResourceWriter,
) {
  return {
    ...buildRouteSchema(resource, 'create', resourceWriter),
    ...buildParameters(resource, 'update'),
    operationId,
    summary,
    description,
    ...(response && { response: { 201: buildActionResponse(name, response) } }),
    failures: [...commonFailures, ...VERBS.update.failures],
    conflicts: [],
    messages: { 404: createNotFound(resource, getExampleId(resource)).message },
  }
}

function buildActionResponse(name: string, response: TObject): DocumentedResponse {
  const schema = toResultSchema({ type: name, members: response, selectable: false })
  const members = { ...buildFieldExamples(response.properties), id: exampleId }
  const example = { value: { entity: { type: name, members } } }
  return {
    description: 'Created',
    headers: pickHeaders('Idempotency-Replayed'),
    content: { 'application/json': { schema, examples: { [`${response.title ?? name}.whole`]: example } } },
  }
}
