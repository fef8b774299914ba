/** Derives an operation as a role sees it: without what the role may not read or write. */
import type { TSchema } from '@sinclair/typebox'
import type { CallerRole } from '../../access/actor.ts'
import type { DocumentedResponse, Operation, Parameter } from '../../openapi/operation.ts'
import { buildListParameters } from '../request/parameters.ts'
import { createIsHidden, getRoleView } from '../request/role-view.ts'
import type { Resource } from '../resource.ts'

const filterProperties = (schema: TSchema, isKept: (name: string) => boolean): TSchema => ({
  ...schema,
  properties: Object.fromEntries(Object.entries<TSchema>(schema.properties).filter(([name]) => isKept(name))),
})

const mapProperties = (schema: TSchema, map: (property: TSchema, name: string) => TSchema): TSchema => ({
  ...schema,
  properties: Object.fromEntries(
    Object.entries<TSchema>(schema.properties).map(([name, property]) => [name, map(property, name)]),
  ),
})

/** Returns the schema of a resource, of resources or of null without hidden fields, also in the resources that it includes. */
function narrowResource(schema: TSchema, resource: Resource, role: CallerRole): TSchema {
  if (schema.items) return { ...schema, items: narrowResource(schema.items, resource, role) }
  if (!schema.properties) return schema
  const isHidden = createIsHidden(resource, role)
  return mapProperties(
    filterProperties(schema, (name) => !isHidden?.(name)),
    (property, name) => {
      const to = resource.relations[name]?.to
      return to ? narrowResource(property, to, role) : property
    },
  )
}

export function toRoleOperation(operation: Operation, resource: Resource, role: CallerRole): Operation {
  const { body, parameters, responses } = operation
  const { locked } = resource.restrictions?.get(role) ?? {}
  const isHidden = createIsHidden(resource, role)
  const view = getRoleView(resource, role)
  const query = view && buildListParameters(view).properties

  const narrowParameter = (parameter: Parameter): Parameter | [] => {
    if (parameter.in !== 'query' || !query) return parameter
    const schema: TSchema | undefined = query[parameter.name]
    return schema ? { ...parameter, schema: schema['x-documented'] ?? schema } : []
  }
  const narrowResponse = (response: DocumentedResponse): DocumentedResponse => {
    const content = response.content?.['application/json']
    if (!content?.schema.properties) return response
    const schema = mapProperties(content.schema, (property, name) =>
      name === 'data' ? narrowResource(property, resource, role) : property,
    )
    return { ...response, content: { 'application/json': { ...content, schema } } }
  }
  const isWritable = (name: string) => !isHidden?.(name) && !locked?.has(name)
  return {
    ...operation,
    parameters: parameters.flatMap(narrowParameter),
    ...(body?.schema.properties && { body: { ...body, schema: filterProperties(body.schema, isWritable) } }),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, response]) => [status, narrowResponse(response)]),
    ),
  }
}
