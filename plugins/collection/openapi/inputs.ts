/** Builds the schemas of request bodies for OpenAPI, with titles that generated clients can use as type names. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { buildExample } from '../../openapi/examples.ts'
import { addTextPatterns } from '../../openapi/strings.ts'
import { addRepeatableFields, type Mode, toBodySchema } from '../request/body.ts'
import type { ResolvedResource } from '../resolve.ts'

type Properties = Record<string, TSchema>

const mapProperties = (
  properties: Properties,
  change: (property: TSchema, name: string) => TSchema,
): Properties =>
  Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, change(property, name)]))

/** Returns the schema of the fields that a body may have. */
export function getInputSchema(resource: ResolvedResource, mode: Mode): TObject {
  if (mode === 'create') return resource.schemas.create
  return mode === 'replace'
    ? addRepeatableFields(resource.schemas.change, resource.schemas.read, resource.immutable ?? [])
    : resource.schemas.change
}

/**
 * Adds the read-only fields, which PUT ignores, so that a client can send a resource as it read it. They are described in
 * words: the keyword `readOnly` would make client generators write two types of each schema.
 * @param identity fields that only their present value is accepted for
 */
function addReadOnly<T extends TSchema>(
  input: T,
  read: TSchema | undefined,
  identity: readonly string[] = [],
): T {
  if (input.items) return { ...input, items: addReadOnly(input.items, read?.items) }
  if (!input.properties) return input
  const readable: Properties = read?.properties ?? {}
  const readOnly = Object.entries(readable).filter(([name]) => !(name in input.properties))
  if (readOnly.length === 0) return input
  // Any value, as the server ignores it.
  const describe = (name: string, property: TSchema): TSchema =>
    identity.includes(name)
      ? { ...property, description: 'That in the path; may be absent' }
      : Type.Unknown({ description: 'Read-only, and ignored' })
  return {
    ...input,
    ...(input.title ? { title: input.title.replace(/(?:Input)?$/, 'Replace') } : {}),
    properties: {
      ...mapProperties(input.properties, (property, name) => addReadOnly(property, readable[name])),
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

/**
 * Describes the defaults of a body in words. With the keyword, openapi-typescript makes the field required, and clients that
 * validate with Zod send it.
 */
function describeDefaults<T extends TSchema>(schema: T): T {
  const { default: value, ...rest } = schema
  if (value !== undefined && value !== null) {
    return { ...schema, default: undefined, description: `${rest.description ?? ''}. Default: \`${value}\`` }
  }
  return schema.properties
    ? { ...schema, properties: mapProperties(schema.properties, describeDefaults) }
    : schema
}

const pick = (value: unknown, names: readonly string[]) =>
  Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)))

/**
 * Returns the example of a body. That of PUT has the same values as that of POST; that of PATCH is the example of the schema
 * for changes, or its first field.
 */
export function buildBodyExample(
  { schemas: { create, change } }: Pick<ResolvedResource, 'schemas'>,
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

/** Builds the schema of a body's fields, with an example. */
export function buildBody(resource: ResolvedResource, mode: Mode): TObject {
  const accepted = toBodySchema(getInputSchema(resource, mode), mode)
  const identity = ['id', ...(resource.parent ? [resource.parent.member] : [])]
  const whole =
    mode === 'replace'
      ? addReadOnly(describeKept(accepted, resource.kept ?? []), resource.schemas.read, identity)
      : accepted
  const title = `${resource.singular}${titles[mode]}`
  const named = addTitleSuffix({ ...whole, title }, mode === 'update' ? 'Update' : 'Input')
  const examples = [buildBodyExample(resource, mode)]
  return addTextPatterns(describeDefaults({ ...named, title, description: descriptions[mode], examples }))
}
