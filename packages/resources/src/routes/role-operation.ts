/** Derives an operation as a role sees it: without what the role may not read or write. */
import type { CallerRole } from '@resource-api/api/actor'
import type { DocumentedResponse, Operation, Parameter } from '@resource-api/api/documents'
import type { TSchema } from '@sinclair/typebox'
import { buildDataSchema } from '../aggregates/documents.ts'
import { buildAggregateParameters } from '../aggregates/query.ts'
import type { Resource } from '../definition/resource.ts'
import { buildListParameters } from '../request/parameters.ts'

const mapProperties = (
  schema: TSchema,
  map: (property: TSchema, name: string) => TSchema | undefined,
): TSchema => {
  const properties = Object.entries<TSchema>(schema.properties).flatMap(([name, property]) => {
    const mapped = map(property, name)
    return mapped ? [[name, mapped]] : []
  })
  return { ...schema, properties: Object.fromEntries(properties) }
}

/** Returns the schema of a resource, of resources or of null without hidden fields, also in the resources that it includes. */
function narrowResource(schema: TSchema, resource: Resource, role: CallerRole): TSchema {
  if (schema.items) return { ...schema, items: narrowResource(schema.items, resource, role) }
  if (!schema.properties) return schema
  const { hidden } = resource.forRole(role)
  return mapProperties(schema, (property, name) => {
    if (hidden.includes(name)) return undefined
    const to = resource.relations[name]?.to
    return to ? narrowResource(property, to, role) : property
  })
}

export function toRoleOperation(operation: Operation, resource: Resource, role: CallerRole): Operation {
  const view = resource.forRole(role)
  if (view === resource) return operation
  const { body, parameters, responses } = operation
  const isAggregate = operation.access === `${resource.name}:aggregate`
  const build = isAggregate ? buildAggregateParameters : buildListParameters
  const listed = build(resource).properties
  const own = build(view).properties

  const narrowParameter = (parameter: Parameter): Parameter | [] => {
    if (parameter.in !== 'query' || !(parameter.name in listed)) return parameter
    const schema: TSchema | undefined = own[parameter.name]
    return schema ? { ...parameter, schema: schema['x-documented'] ?? schema } : []
  }
  const narrowResponse = (response: DocumentedResponse): DocumentedResponse => {
    const content = response.content?.['application/json']
    if (!content?.schema.properties) return response
    const schema = mapProperties(content.schema, (property, name) =>
      name !== 'data'
        ? property
        : isAggregate
          ? buildDataSchema(view)
          : narrowResource(property, resource, role),
    )
    return { ...response, content: { 'application/json': { ...content, schema } } }
  }
  const narrowField = (field: TSchema, name: string) => (view.readOnly.includes(name) ? undefined : field)
  return {
    ...operation,
    parameters: parameters.flatMap(narrowParameter),
    ...(body?.schema.properties && { body: { ...body, schema: mapProperties(body.schema, narrowField) } }),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, response]) => [status, narrowResponse(response)]),
    ),
  }
}
