/** The schemas of the fields that bodies may have. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { isObject } from '../../../lib/is-object.ts'
import type { Mode, ResourceDefinition } from '../definition.ts'

export const hasDefault = (schema: TSchema) => schema.default !== undefined

export const isObjectSchema = (schema: TSchema): schema is TObject => isObject(schema.properties)

/** Returns the schema of a body: without unknown fields, and without required fields that have a default. */
export function toBodySchema(schema: TObject, mode: Mode): TObject {
  const properties = Object.fromEntries(
    Object.entries(schema.properties).map(([name, property]) => [name, toBodyProperty(property, mode)]),
  )
  const isRequired = (name: string) => {
    const property = schema.properties[name]
    return property !== undefined && !hasDefault(property)
  }
  const required = mode === 'update' ? [] : (schema.required ?? []).filter(isRequired)
  return { ...schema, properties, additionalProperties: false, required }
}

function toBodyProperty(property: TSchema, mode: Mode): TSchema {
  const { default: _, ...withoutDefault } = property
  const kept: TSchema = mode === 'update' ? withoutDefault : property
  if (isObjectSchema(kept)) return toBodySchema(kept, mode)
  // PATCH, too, replaces an array as a whole.
  return property.items ? { ...kept, items: toBodyProperty(property.items, 'create') } : kept
}

/** Returns a schema with fields that PUT may repeat from the resource as it was read. */
const addRepeatableFields = (schema: TObject, read: TObject, names: readonly string[]): TObject =>
  Type.Object(
    {
      ...Object.fromEntries(
        names.flatMap((name) => {
          const property = read.properties[name]
          return property ? [[name, Type.Optional(property)]] : []
        }),
      ),
      ...schema.properties,
    },
    { title: schema.title ?? '' },
  )

/** Returns the schema of the fields that a body may have. */
export function getInputSchema(
  resource: Pick<ResourceDefinition, 'schemas' | 'immutable'>,
  mode: Mode,
): TObject {
  if (mode === 'create') return resource.schemas.create
  return mode === 'replace'
    ? addRepeatableFields(resource.schemas.change, resource.schemas.read, resource.immutable ?? [])
    : resource.schemas.change
}
