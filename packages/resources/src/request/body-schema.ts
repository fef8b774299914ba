/** Builds the schemas of request bodies, which validate and document them. Titles are type names of generated clients. */
import { buildExample } from '@resource-api/api/documents'
import { withDecode } from '@resource-api/api/validation'
import { getRowParts, isExisting, listReferenceMembers } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Mode } from '../definition/code.ts'
import type { ResourceDefinition } from '../definition/definition.ts'

export const hasDefault = (schema: TSchema | undefined) => schema?.default !== undefined

export const isObjectSchema = (schema: TSchema): schema is TObject => isObject(schema.properties)

type Properties = Record<string, TSchema>

const mapProperties = (
  properties: Properties,
  change: (property: TSchema, name: string) => TSchema,
): Properties =>
  Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, change(property, name)]))

interface Written {
  read: TSchema | undefined
  /** Fields that only their present value is accepted for. */
  identity?: readonly string[]
}

/**
 * Returns the schema of a body: without unknown fields, and without required fields that have a default.
 *
 * Of a resource, it names the fields that can be read but not written, so that they are refused as such. PUT ignores them,
 * so that a client can send a resource as it read it: there they are fields. They are described in words: the keyword
 * `readOnly` would make client generators write two types of each schema. Nested schemas get titles of their own: they
 * differ from those of responses, and PATCH's from the others.
 */
export function toBodySchema(schema: TObject, mode: Mode, written?: Written): TObject {
  const readable: Properties = written?.read?.properties ?? {}
  const properties = mapProperties(schema.properties, (property, name) =>
    toBodyProperty(property, mode, written && { read: readable[name] }),
  )
  const required = (schema.required ?? []).filter((name) => !hasDefault(schema.properties[name]))
  const body = {
    ...schema,
    properties,
    additionalProperties: false,
    required: mode === 'update' ? [] : required,
  }
  if (!written) return body
  const readOnly = Object.fromEntries(Object.entries(readable).filter(([name]) => !(name in properties)))
  const names = Object.keys(readOnly)
  const hasIgnored = mode === 'replace' && names.length > 0
  const suffix = mode === 'update' ? 'Update' : 'Input'
  const title = hasIgnored
    ? schema.title?.replace(/(?:Input)?$/, 'Replace')
    : schema.title?.replace(/(?<!Input|Replace|Update)$/, suffix)
  const named = { ...body, ...(title && { title }) }
  if (mode !== 'replace') return { ...named, 'x-read-only': names }
  const describe = (property: TSchema, name: string) =>
    written.identity?.includes(name)
      ? // The handler compares it with the path.
        Type.Unknown({ 'x-documented': { ...property, description: 'That in the path; may be absent' } })
      : Type.Unknown({ description: 'Read-only, and ignored', 'x-ignored': true })
  return { ...named, properties: { ...properties, ...mapProperties(readOnly, describe) } }
}

/** Returns the properties of a body, of which those with ids of tables of others are kept as they are sent. */
const keepIds = (
  properties: Properties,
  { table }: Partial<Pick<ResourceDefinition, 'table'>>,
): Properties => {
  if (!table || !isExisting(table)) return properties
  const references = listReferenceMembers(table)
  const ids = getRowParts(table).key.parts.map(({ member }) => member)
  return mapProperties(properties, (property, name) => {
    if (references.includes(name)) return { ...property, 'x-id': 'reference' }
    return ids.includes(name) ? { ...property, 'x-id': 'own' } : property
  })
}

function toBodyProperty(property: TSchema, mode: Mode, written: Written | undefined): TSchema {
  const { default: _, ...withoutDefault } = property
  const kept: TSchema = mode === 'update' ? withoutDefault : property
  if (isObjectSchema(kept)) return toBodySchema(kept, mode, written)
  if (!kept.items) return kept
  // PATCH, too, replaces an array as a whole.
  const itemMode = mode === 'update' ? 'create' : mode
  return { ...kept, items: toBodyProperty(kept.items, itemMode, written && { read: written.read?.items }) }
}

/** Returns the schema of the fields that a body may have. PUT may repeat immutable ones from the resource as it was read. */
export function getInputSchema(
  { schemas, immutable = [] }: Pick<ResourceDefinition, 'schemas' | 'immutable'>,
  mode: Mode,
): TObject {
  const { read, create, change } = schemas
  if (mode !== 'replace') return mode === 'create' ? create : change
  const known = immutable.filter((name) => name in read.properties)
  const repeatable = Type.Partial(Type.Pick(read, known)).properties
  return Type.Object({ ...repeatable, ...change.properties }, { title: change.title ?? '' })
}

/** Returns the schema of an object, and of those in it, that ignores the fields that can be read but not written. */
function ignoreReadOnly(schema: TSchema): TSchema {
  if (schema.items) return { ...schema, items: ignoreReadOnly(schema.items) }
  if (!isObjectSchema(schema)) return schema
  const { 'x-read-only': names = [], ...rest } = schema
  const ignored = names.map((name: string) => [name, Type.Unknown({ 'x-ignored': true })])
  return {
    ...rest,
    properties: { ...mapProperties(rest.properties, ignoreReadOnly), ...Object.fromEntries(ignored) },
  }
}

/**
 * Returns the schema of a row of an import, which ignores read-only fields: a row has been read, perhaps.
 * @param mode `update` for the row of a resource that exists: its immutable fields may be repeated
 */
export function buildRowSchema(
  resource: Pick<ResourceDefinition, 'schemas' | 'immutable' | 'notImported' | 'check'> &
    Partial<Pick<ResourceDefinition, 'table'>>,
  mode: 'create' | 'update',
): TObject {
  const { check, notImported = [], schemas } = resource
  const input = getInputSchema(resource, mode === 'create' ? 'create' : 'replace')
  const body = toBodySchema(input, mode, { read: schemas.read })
  const properties = Object.entries(body.properties).filter(([name]) => !notImported.includes(name))
  const schema = {
    ...ignoreReadOnly({ ...body, properties: keepIds(Object.fromEntries(properties), resource) }),
    // Refused by their names.
    'x-read-only': notImported,
    required: (body.required ?? []).filter((name) => !notImported.includes(name)),
  }
  // A spread of an object schema with the same keywords.
  return withCheck(schema, check, mode) as TObject
}

const pick = (value: unknown, names: readonly string[]) =>
  Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)))

/**
 * Returns the example of a body. That of PUT has the same values as that of POST, and the fields that only a change requires;
 * that of PATCH is the example of the schema for changes, or its first field.
 */
export function buildBodyExample(
  { schemas: { create, change }, kept = [] }: Pick<ResourceDefinition, 'schemas' | 'kept'>,
  mode: Mode,
): unknown {
  const names = Object.keys(change.properties)
  if (mode === 'update') return change.examples?.[0] ?? pick(buildExample(change), names.slice(0, 1))
  const whole = buildExample(create)
  if (mode === 'create') return whole
  const isMissing = (name: string) =>
    !(name in Object(whole)) && !hasDefault(change.properties[name]) && !kept.includes(name)
  return { ...pick(whole, names), ...pick(buildExample(change), (change.required ?? []).filter(isMissing)) }
}

const TEXTS: Record<Mode, { title: string; description: string }> = {
  create: { title: 'Create', description: 'The fields of a new resource' },
  replace: { title: 'Replace', description: 'All fields of a resource' },
  update: { title: 'Update', description: 'The fields to change' },
}

/** The parts of a definition, or of a resource, from which the schemas of bodies follow. */
type WrittenResource = Pick<ResourceDefinition, 'singular' | 'schemas' | 'immutable' | 'kept' | 'check'> &
  Partial<Pick<ResourceDefinition, 'table'>> & {
    parent?: { member: string }
  }

/** Builds the schema of a body's fields, with an example. It validates and documents them. */
export function buildBody(resource: WrittenResource, mode: Mode): TSchema {
  const { check, kept = [], parent, schemas, singular } = resource
  const identity = ['id', ...(parent ? [parent.member] : [])]
  const body = toBodySchema(getInputSchema(resource, mode), mode, { read: schemas.read, identity })
  // Fields that PUT keeps if they are absent have no default.
  const properties = mapProperties(keepIds(body.properties, resource), (property, name) => {
    if (mode !== 'replace' || !kept.includes(name)) return property
    const { default: _, description = '', ...rest } = property
    return { ...rest, description: `${description}. Kept if absent` }
  })
  const { title, description } = TEXTS[mode]
  const examples = [buildBodyExample(resource, mode)]
  return withCheck({ ...body, properties, title: `${singular}${title}`, description, examples }, check, mode)
}

function withCheck(schema: TSchema, check: ResourceDefinition['check'], mode: Mode): TSchema {
  if (!check) return schema
  return withDecode(schema, (fields: Record<string, unknown>, violations) => {
    violations.push(...check(fields, mode))
    return fields
  })
}
