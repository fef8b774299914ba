/** Makes tools of the operations of collections, with the names and schemas that the documents have. */
import type { Tool as ToolDescription } from '@modelcontextprotocol/server'
import { type Guard, passesGuard } from '@resource-api/api/access'
import type { Actor, CallerRole } from '@resource-api/api/actor'
import type { Operation, Parameter } from '@resource-api/api/documents'
import { compileSchema } from '@resource-api/api/validation'
import { v1 } from '@resource-api/api/versions'
import { mapInTurns } from '@resource-api/database/concurrency'
import { isObject } from '@resource-api/database/values'
import type { Config } from '@resource-api/http/config'
import { RESTORES, type Resource, toRoleOperation } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import { createSchemaDocumenter, documentBody, inlined, type Json } from '../openapi/document-schema.ts'

const PREFIX = `/api/v${v1.version}/`

/** The ends of the names of tools that differ from those of operations. */
const SUFFIXES: Readonly<Record<string, string>> = { read: 'get', remove: 'delete' }

/** What an operation does that a definition declares is not known. */
const isDestructive = (operation: string) =>
  !['list', 'read', 'create', 'update', 'aggregate'].includes(operation)

const toToolName = (collection: string, verb: string) =>
  `${collection}_${SUFFIXES[verb] ?? verb}`.replaceAll('-', '_')

/** The request headers that are arguments. */
const HEADERS = ['If-Match', 'Idempotency-Key']

/** Where an argument stands in the request, and under which name. */
interface Place {
  in: Parameter['in'] | 'body'
  name: string
  /** Of an argument that is sent as text, as they all are but those of the body. */
  validate?: ReturnType<typeof compileSchema>
}

export interface Tool extends Pick<Operation, 'method' | 'url'> {
  guard: Guard
  places: ReadonlyMap<string, Place>
  description: ToolDescription
}

const document = createSchemaDocumenter(inlined)
/** Clients validate results by the schema of the serializer, in which `fields` makes members optional. */
const documentResult = createSchemaDocumenter(inlined, { isExact: true })

const toJson = (schema: unknown): Json => (isObject(schema) ? schema : {})

/** Returns the places of the arguments of an operation, their schema, and an example of a call. */
function buildArguments({ body, parameters }: Operation) {
  const places = new Map<string, Place>()
  const properties: Record<string, Json> = {}
  const required: string[] = []
  const example: Json = {}
  const add = (place: Place, schema: Json, isRequired: boolean, value: unknown) => {
    const plain = place.in === 'header' ? place.name.toLowerCase().replaceAll('-', '_') : place.name
    const isTaken = places.has(plain)
    // PUT accepts the ids of its path in the body, too.
    if (isTaken && place.in === 'body' && !isRequired) return
    const name = isTaken ? `${place.in}_${plain}` : plain
    places.set(name, place)
    properties[name] = schema
    if (isRequired) required.push(name)
    if (value !== undefined) example[name] = value
  }
  for (const { in: part, name, isRequired, schema } of parameters) {
    if (part === 'header' && !HEADERS.includes(name)) continue
    const { description, examples, ...rest } = schema
    const documented = { ...toJson(document(rest)), description, examples }
    const place: Place = { in: part, name, validate: compileSchema(schema) }
    add(place, documented, isRequired, isRequired ? examples?.[0] : undefined)
  }
  const members = toJson(body && document(documentBody(body.schema)))
  const sent = toJson(Object.values(body?.examples ?? {})[0]?.value)
  for (const [name, schema] of Object.entries(toJson(members.properties))) {
    const isRequired = Array.isArray(members.required) && members.required.includes(name)
    add({ in: 'body', name }, toJson(schema), isRequired, sent[name])
  }
  const schemaOfAll = { type: 'object', properties, required, additionalProperties: false }
  // A documented schema is JSON.
  return { places, inputSchema: { ...schemaOfAll, examples: [example] } as ToolDescription['inputSchema'] }
}

function buildTool(operation: Operation, guard: Guard, collection: string, verb: string): Tool {
  const { description = '', method, responses, summary, url } = operation
  const { places, inputSchema } = buildArguments(operation)
  // A deletion has no result, unless it is a dry run.
  const result = responses[204]
    ? undefined
    : Object.values(responses).find(({ content }) => content)?.content?.['application/json'].schema
  const outputSchema = toJson(result && documentResult(result))
  return {
    ...{ guard, method, places, url },
    description: {
      name: toToolName(collection, verb),
      title: summary,
      description,
      inputSchema,
      ...(result && { outputSchema: { ...outputSchema, type: 'object' } }),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: isDestructive(verb),
        idempotentHint: method !== 'POST',
        openWorldHint: false,
      },
    },
  }
}

/** Which tools are left out, whatever a caller may do. */
type Exclusions = Pick<Config, 'MCP_EXCLUDE_TOOLS' | 'MCP_READ_ONLY'>

/** @param pattern the name of a tool, or `*` and the end of names */
const matches = (name: string, pattern: string) =>
  pattern.startsWith('*') ? name.endsWith(pattern.slice(1)) : name === pattern

/**
 * Creates the function that returns the tools of a caller, in the order of their names: those that it may use, on some row
 * at least. Those of a role are built at their first use.
 * @param resources those whose operations are tools
 * @throws Error if a name to leave out is that of no tool
 */
export function createToolList(
  { guards }: Pick<FastifyInstance, 'guards'>,
  operations: readonly Operation[],
  resources: readonly Resource[],
  { MCP_EXCLUDE_TOOLS: excluded, MCP_READ_ONLY: isReadOnly }: Exclusions,
) {
  const offered = operations.flatMap((operation) => {
    const [collection, verb = ''] = String(operation.access).split(':')
    const guard = guards.get(String(operation.access))
    const resource = resources.find(({ name }) => name === collection)
    // A restore is for people.
    if (resource?.isRestorable && verb === RESTORES) return []
    if (!guard || !resource || !operation.url.startsWith(PREFIX)) return []
    return [{ operation, guard, resource, verb, name: toToolName(resource.name, verb) }]
  })
  const unknown = excluded.find((pattern) => !offered.some(({ name }) => matches(name, pattern)))
  if (unknown !== undefined) throw new Error(`MCP_EXCLUDE_TOOLS names ${unknown}, but there is no such tool`)
  const kept = offered
    .filter(({ operation }) => !isReadOnly || operation.method === 'GET')
    .filter(({ name }) => !excluded.some((pattern) => matches(name, pattern)))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  const byRole = new Map<CallerRole, Promise<Tool[]>>()
  const build = (role: CallerRole) =>
    mapInTurns(kept, ({ operation, guard, resource, verb }) =>
      buildTool(toRoleOperation(operation, resource, role), guard, resource.name, verb),
    )
  return async (actor: Actor): Promise<Tool[]> => {
    const built = byRole.get(actor.role) ?? build(actor.role)
    byRole.set(actor.role, built)
    return (await built).filter(({ guard }) => passesGuard(actor, guard))
  }
}
