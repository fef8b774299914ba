/** Builds the schemas of parameters and bodies for OpenAPI, with titles that generated clients can use as type names. */
import { type ArrayOptions, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { exampleId, OneOf } from '../../../schemas/types.ts'
import type { Verb } from '../../access/index.ts'
import { addRepeatableFields, type Mode, toBodySchema } from '../request/body.ts'
import { buildListParameters, buildSelectionParameters } from '../request/parameters.ts'
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

/** Adds the read-only fields, which PUT ignores, so that a client can send a resource as it read it. */
function addReadOnly<T extends TSchema>(input: T, read: TSchema | undefined): T {
  if (input.items) return { ...input, items: addReadOnly(input.items, read?.items) }
  if (!input.properties) return input
  const readable: Properties = read?.properties ?? {}
  const readOnly = Object.entries(readable).filter(([name]) => !(name in input.properties))
  if (readOnly.length === 0) return input
  return {
    ...input,
    ...(input.title ? { title: input.title.replace(/(?:Input)?$/, 'Replace') } : {}),
    properties: {
      ...mapProperties(input.properties, (property, name) => addReadOnly(property, readable[name])),
      ...Object.fromEntries(readOnly.map(([name, property]) => [name, { ...property, readOnly: true }])),
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

const titles: Record<Mode, string> = { create: 'Create', replace: 'Replace', update: 'Update' }

/** Builds the schema of a body's fields. */
export function buildBody(resource: ResolvedResource, mode: Mode): TObject {
  const accepted = toBodySchema(getInputSchema(resource, mode), mode)
  const whole =
    mode === 'replace'
      ? addReadOnly(describeKept(accepted, resource.kept ?? []), resource.schemas.read)
      : accepted
  const title = `${resource.singular}${titles[mode]}`
  const named = addTitleSuffix({ ...whole, title }, mode === 'update' ? 'Update' : 'Input')
  return { ...named, title }
}

/** Documents comma-separated parameters as arrays of enums. */
function documentLists(resource: ResolvedResource, query: Properties): Properties {
  const sorts = Object.keys(resource.sorts)
  const fields = Object.keys(resource.schemas.read.properties)
  const relations = Object.keys(resource.relations)
  const sortOptions = { maxItems: 5, examples: [['-created_at']] }
  const lists: Record<string, { values: readonly string[]; options: ArrayOptions }> = {
    sort: { values: [...sorts, ...sorts.map((name) => `-${name}`)], options: sortOptions },
    order: { values: ['asc', 'desc'], options: { maxItems: 5, examples: [['desc']] } },
    fields: { values: fields, options: { examples: [fields.slice(0, 3)] } },
    include: { values: relations, options: { maxItems: 3, examples: [relations.slice(0, 1)] } },
  }
  return mapProperties(query, (property, name) => {
    const list = lists[name]
    if (!list) return property
    const { description = '' } = property
    return Type.Array(OneOf(list.values), { minItems: 1, description, ...list.options })
  })
}

/** Builds the query parameters of an operation. */
export function buildQuery(resource: ResolvedResource, verb: Verb): Properties {
  if (verb === 'list') return documentLists(resource, buildListParameters(resource).properties)
  return verb === 'read' ? documentLists(resource, buildSelectionParameters(resource).properties) : {}
}

const buildPathId = (description: string, hasMe: boolean | undefined) =>
  Type.String({
    ...(hasMe ? {} : { format: 'uuid' }),
    description: hasMe ? `${description}, or \`me\` for the caller` : description,
    examples: [hasMe ? 'me' : exampleId],
  })

/** Builds the path parameters of an operation. */
export function buildPath(resource: ResolvedResource, verb: Verb): Properties {
  const parent = resource.parent?.to
  return {
    ...(resource.parent && parent
      ? { [resource.parent.member]: buildPathId('Id of the parent', parent.me) }
      : {}),
    ...(verb === 'list' || verb === 'create' ? {} : { id: buildPathId('Id of the resource', resource.me) }),
  }
}
