/** Makes tools of the operations of collections, with the names and schemas that the documents have. */
import type { Tool as ToolDescription } from '@modelcontextprotocol/sdk/types.js'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { isObject } from '../../lib/is-object.ts'
import { mapInTurns } from '../../lib/map-in-turns.ts'
import type { Actor, CallerRole } from '../access/actor.ts'
import { passesGuard } from '../access/guards.ts'
import { buildListParameters } from '../collection/request/parameters.ts'
import { getRoleView } from '../collection/request/role-view.ts'
import { getToInternal } from '../collection/request/selection.ts'
import type { Resource } from '../collection/resource.ts'
import { createSchemaDocumenter, documentBody, inlined, type Json } from '../openapi/document-schema.ts'
import type { Operation, Parameter } from '../openapi/operation.ts'
import { v1 } from '../versioning/representation/v1.ts'

const PREFIX = `/api/v${v1.version}/`

/** The ends of the names of tools that differ from those of operations. */
const SUFFIXES: Readonly<Record<string, string>> = { read: 'get', remove: 'delete' }

/** What an operation does that a definition declares is not known. */
const isDestructive = (operation: string) => !['list', 'read', 'create', 'update'].includes(operation)

/** The request headers that are arguments. */
const HEADERS = ['If-Match', 'Idempotency-Key']

/** Where an argument stands in the request, and under which name. */
interface Place {
  in: Parameter['in'] | 'body'
  name: string
}

interface Argument extends Place {
  isRequired: boolean
  schema: Json
  /** In the example of a call; undefined if that lacks it. */
  value: unknown
}

export interface Tool extends Pick<Operation, 'method' | 'url'> {
  /** The name of its guard, such as `users:list`. */
  access: string
  places: ReadonlyMap<string, Place>
  description: ToolDescription
}

const document = createSchemaDocumenter(inlined)
/** Clients validate results by the schema of the serializer, in which `fields` makes members optional. */
const documentResult = createSchemaDocumenter(inlined, { isExact: true })

const toJson = (schema: unknown): Json => (isObject(schema) ? schema : {})

function listArguments({ body, parameters }: Operation): Argument[] {
  const sent = parameters.filter(({ in: place, name }) => place !== 'header' || HEADERS.includes(name))
  const { properties, required } = toJson(body && document(documentBody(body.schema)))
  const example = toJson(Object.values(body?.examples ?? {})[0]?.value)
  return [
    ...sent.map(({ schema: { description, examples, ...schema }, isRequired, ...place }) => ({
      ...{ ...place, isRequired, value: isRequired ? examples?.[0] : undefined },
      schema: { ...toJson(document(schema)), description, ...(examples && { examples }) },
    })),
    ...Object.entries(toJson(properties)).map(([name, schema]) => ({
      ...{ in: 'body' as const, name, value: example[name], schema: toJson(schema) },
      isRequired: Array.isArray(required) && required.includes(name),
    })),
  ]
}

/** Returns functions that leave out what a role may not read or write. */
function createNarrower(resource: Resource, role: CallerRole) {
  const { hidden, locked } = resource.restrictions?.get(role) ?? {}
  const view = getRoleView(resource, role)
  const query = view && buildListParameters(view.published).properties
  const toInternal = getToInternal(resource)
  return {
    narrowParameter(parameter: Parameter): Parameter | [] {
      if (parameter.in !== 'query' || !query) return parameter
      const schema: TSchema | undefined = query[parameter.name]
      return schema ? { ...parameter, schema: schema['x-documented'] ?? schema } : []
    },
    isWritable: (name: string) => !hidden?.has(toInternal(name)) && !locked?.has(toInternal(name)),
    /** Leaves out fields of a resource, or of resources. */
    narrowResult({ items, properties, ...schema }: Json): Json {
      const shown = Object.entries(toJson(properties)).filter(([name]) => !hidden?.has(toInternal(name)))
      return {
        ...schema,
        ...(isObject(items)
          ? { items: this.narrowResult(items) }
          : { properties: Object.fromEntries(shown) }),
      }
    },
  }
}

function buildTool(operation: Operation, access: string, resource: Resource, role: CallerRole): Tool {
  const { description = '', method, responses, summary, url } = operation
  const verb = access.slice(resource.name.length + 1)
  const narrower = createNarrower(resource, role)
  const places = new Map<string, Place>()
  const properties: Record<string, Json> = {}
  const required: string[] = []
  const example: Json = {}
  const parameters = operation.parameters.flatMap(narrower.narrowParameter)
  for (const { in: place, isRequired, name, schema, value } of listArguments({ ...operation, parameters })) {
    if (place === 'body' && !narrower.isWritable(name)) continue
    const plain = place === 'header' ? name.toLowerCase().replaceAll('-', '_') : name
    const isTaken = places.has(plain)
    // PUT accepts the ids of its path in the body, too.
    if (isTaken && place === 'body' && !isRequired) continue
    const argument = isTaken ? `${place}_${plain}` : plain
    places.set(argument, { in: place, name })
    properties[argument] = schema
    if (isRequired) required.push(argument)
    if (value !== undefined) example[argument] = value
  }
  // A deletion has no result.
  const result = Object.values(responses).find(({ content }) => content)?.content?.['application/json'].schema
  const members = toJson(toJson(result && documentResult(result)).properties)
  const shown = { ...members, data: narrower.narrowResult(toJson(members.data)) }
  return {
    ...{ access, method, places, url },
    description: {
      name: `${resource.name}_${SUFFIXES[verb] ?? verb}`.replaceAll('-', '_'),
      title: summary,
      description,
      inputSchema: { type: 'object', properties, required, additionalProperties: false, examples: [example] },
      ...(result && { outputSchema: { type: 'object', properties: shown, required: result.required } }),
      annotations: {
        readOnlyHint: method === 'GET',
        destructiveHint: isDestructive(verb),
        idempotentHint: method !== 'POST',
        openWorldHint: false,
      },
    },
  }
}

/**
 * Creates the function that returns the tools of a caller: those that it may use, on some row at least. Those of a role are
 * built at their first use.
 * @param resources those whose operations are tools, in the version of the operations
 */
export function createToolList(
  { guards }: Pick<FastifyInstance, 'guards'>,
  readOperations: () => readonly Operation[],
  resources: readonly Resource[],
) {
  const byRole = new Map<CallerRole, Promise<Tool[][]>>()
  const build = (role: CallerRole) =>
    mapInTurns(readOperations(), (operation) => {
      const { access, url } = operation
      if (typeof access !== 'string' || !url.startsWith(PREFIX)) return []
      const resource = resources.find(({ name }) => access.startsWith(`${name}:`))
      return resource ? [buildTool(operation, access, resource, role)] : []
    })
  return async (actor: Actor): Promise<Tool[]> => {
    const built = byRole.get(actor.role) ?? build(actor.role)
    byRole.set(actor.role, built)
    return (await built).flat().filter(({ access }) => {
      const guard = guards.get(access)
      return guard !== undefined && passesGuard(actor, guard)
    })
  }
}
