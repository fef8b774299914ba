/** Builds the schemas of request bodies, which validate and document them. Titles are type names of generated clients. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { isObject } from '../../../lib/is-object.ts'
import { buildExample } from '../../openapi/examples.ts'
import { withDecode } from '../../validation/schema-functions.ts'
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

type Properties = Record<string, TSchema>

const mapProperties = (
  properties: Properties,
  change: (property: TSchema, name: string) => TSchema,
): Properties =>
  Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, change(property, name)]))

/**
 * Names the fields that can be read but not written, so that they are refused as such. PUT ignores them, so that a client
 * can send a resource as it read it: there they are fields. They are described in words: the keyword `readOnly` would make
 * client generators write two types of each schema.
 * @param identity fields that only their present value is accepted for
 */
function addReadOnly<T extends TSchema>(
  input: T,
  read: TSchema | undefined,
  mode: Mode,
  identity: readonly string[] = [],
): T {
  if (input.items) return { ...input, items: addReadOnly(input.items, read?.items, mode) }
  if (!input.properties) return input
  const readable: Properties = read?.properties ?? {}
  const readOnly = Object.entries(readable).filter(([name]) => !(name in input.properties))
  const nested = mapProperties(input.properties, (property, name) =>
    addReadOnly(property, readable[name], mode),
  )
  if (mode !== 'replace') {
    return { ...input, properties: nested, 'x-read-only': readOnly.map(([name]) => name) }
  }
  if (readOnly.length === 0) return input
  const describe = (name: string, property: TSchema): TSchema =>
    identity.includes(name)
      ? // The handler compares it with the path.
        Type.Unknown({ 'x-documented': { ...property, description: 'That in the path; may be absent' } })
      : Type.Unknown({ description: 'Read-only, and ignored', 'x-ignored': true })
  return {
    ...input,
    ...(input.title ? { title: input.title.replace(/(?:Input)?$/, 'Replace') } : {}),
    properties: {
      ...nested,
      ...Object.fromEntries(readOnly.map(([name, property]) => [name, describe(name, property)])),
    },
  }
}

/** Appends a suffix to the titles of nested schemas: they differ from those of responses, and PATCH's from the others. */
function addTitleSuffix<T extends TSchema>(schema: T, suffix: string): T {
  if (schema.items) return { ...schema, items: addTitleSuffix(schema.items, 'Input') }
  if (!schema.properties) return schema
  const properties = mapProperties(schema.properties, (property) => addTitleSuffix(property, suffix))
  const isNamed = schema.title && !/(?:Input|Replace|Update)$/.test(schema.title)
  return { ...schema, properties, ...(isNamed ? { title: `${schema.title}${suffix}` } : {}) }
}

/** Documents the fields that PUT keeps if they are absent: they have no default. */
const describeKept = (schema: TObject, names: readonly string[]): TObject => ({
  ...schema,
  properties: mapProperties(schema.properties, (property, name) => {
    if (!names.includes(name)) return property
    const { default: _, description = '', ...kept } = property
    return { ...kept, description: `${description}. Kept if absent` }
  }),
})

const pick = (value: unknown, names: readonly string[]) =>
  Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)))

/**
 * Returns the example of a body. That of PUT has the same values as that of POST; that of PATCH is the example of the schema
 * for changes, or its first field.
 */
export function buildBodyExample(
  { schemas: { create, change } }: Pick<ResourceDefinition, 'schemas'>,
  mode: Mode,
): unknown {
  const names = Object.keys(change.properties)
  if (mode === 'update') return change.examples?.[0] ?? pick(buildExample(change), names.slice(0, 1))
  const whole = buildExample(create)
  return mode === 'create' ? whole : pick(whole, names)
}

const descriptions: Record<Mode, string> = {
  create: 'The fields of a new resource',
  replace: 'All fields of a resource',
  update: 'The fields to change',
}

const titles: Record<Mode, string> = { create: 'Create', replace: 'Replace', update: 'Update' }

/** The parts of a definition, or of a resource, from which the schemas of bodies follow. */
type WrittenResource = Pick<ResourceDefinition, 'singular' | 'schemas' | 'immutable' | 'kept' | 'check'> & {
  parent?: { member: string }
}

/** Builds the schema of a body's fields, with an example. It validates and documents them. */
export function buildBody(resource: WrittenResource, mode: Mode): TSchema {
  const { check, kept = [], parent, schemas, singular } = resource
  const accepted = toBodySchema(getInputSchema(resource, mode), mode)
  const identity = ['id', ...(parent ? [parent.member] : [])]
  const whole = addReadOnly(
    mode === 'replace' ? describeKept(accepted, kept) : accepted,
    schemas.read,
    mode,
    identity,
  )
  const title = `${singular}${titles[mode]}`
  const named = addTitleSuffix({ ...whole, title }, mode === 'update' ? 'Update' : 'Input')
  const examples = [buildBodyExample(resource, mode)]
  const schema = { ...named, title, description: descriptions[mode], examples }
  if (!check) return schema
  return withDecode(schema, (fields: Record<string, unknown>, violations) => {
    violations.push(...check(fields, mode))
    return fields
  })
}
