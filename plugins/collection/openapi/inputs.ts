/** Parameters and bodies as the documents tell them: what is accepted, under names that generated clients can use. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { exampleId } from '../../../schemas/types.ts'
import type { Verb } from '../../access/index.ts'
import { addRepeatableFields, type Mode, toBodySchema } from '../request/body.ts'
import { buildListParameters, buildSelectionParameters } from '../request/parameters.ts'
import type { ResolvedResource } from '../resolve.ts'

type Members = Record<string, TSchema>

const mapMembers = (members: Members, change: (member: TSchema, name: string) => TSchema): Members =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [name, change(member, name)]))

/** The members that a body may hold in each mode. */
export function inputOf(resource: ResolvedResource, mode: Mode): TObject {
  if (mode === 'create') return resource.schemas.create
  return mode === 'replace'
    ? addRepeatableFields(resource.schemas.change, resource.schemas.read, resource.immutable ?? [])
    : resource.schemas.change
}

/** With what PUT ignores: the members that were read, and can be put back. */
function puttingBack<T extends TSchema>(input: T, read: TSchema | undefined): T {
  if (input.items) return { ...input, items: puttingBack(input.items, read?.items) }
  if (!input.properties) return input
  const members: Members = read?.properties ?? {}
  const ignored = Object.entries(members).filter(([name]) => !(name in input.properties))
  if (ignored.length === 0) return input
  return {
    ...input,
    ...(input.title ? { title: input.title.replace(/(?:Input)?$/, 'Replace') } : {}),
    properties: {
      ...mapMembers(input.properties, (member, name) => puttingBack(member, members[name])),
      ...Object.fromEntries(ignored.map(([name, member]) => [name, { ...member, readOnly: true }])),
    },
  }
}

/** What stands inside a body has names of its own: it differs from what is read, and a change differs from the whole. */
function renamed<T extends TSchema>(schema: T, suffix: string): T {
  if (schema.items) return { ...schema, items: renamed(schema.items, 'Input') }
  if (!schema.properties) return schema
  const properties = mapMembers(schema.properties, (member) => renamed(member, suffix))
  const title = schema.title && !/(?:Input|Replace|Update)$/.test(schema.title)
  return { ...schema, properties, ...(title ? { title: `${schema.title}${suffix}` } : {}) }
}

/** What PUT keeps where it is absent has no default there. */
const keeping = (schema: TObject, names: readonly string[]): TObject => ({
  ...schema,
  properties: mapMembers(schema.properties, (member, name) => {
    if (!names.includes(name)) return member
    const { default: _, description = '', ...kept } = member
    return { ...kept, description: `${description}. Kept where absent` } as TSchema
  }),
})

const titles: Record<Mode, string> = { create: 'Create', replace: 'Replace', update: 'Update' }

/** The members of a body in a mode, as it is accepted. */
export function bodyOf(resource: ResolvedResource, mode: Mode): TObject {
  const accepted = toBodySchema(inputOf(resource, mode), mode)
  const whole =
    mode === 'replace' ? puttingBack(keeping(accepted, resource.kept ?? []), resource.schemas.read) : accepted
  const title = `${resource.singular}${titles[mode]}`
  const named = renamed({ ...whole, title }, mode === 'update' ? 'Update' : 'Input')
  return { ...named, title }
}

const listOf = (names: readonly string[], { description = '' }: TSchema, options: object) =>
  Type.Optional(
    Type.Array(Type.Unsafe<string>({ type: 'string', enum: names }), {
      minItems: 1,
      description,
      ...options,
    }),
  )

/** Lists are told as such, comma-separated (`finish.ts` says so), so that clients have the names at hand. */
function withLists(resource: ResolvedResource, query: TObject): TObject {
  const sorts = Object.keys(resource.sorts)
  const members = Object.keys(resource.schemas.read.properties)
  const relations = Object.keys(resource.relations)
  const { fields, include, sort, order } = query.properties
  return Type.Object({
    ...query.properties,
    ...(sort
      ? {
          sort: listOf([...sorts, ...sorts.map((name) => `-${name}`)], sort, {
            maxItems: 5,
            examples: [['-created_at']],
          }),
        }
      : {}),
    ...(order ? { order: listOf(['asc', 'desc'], order, { maxItems: 5, examples: [['desc']] }) } : {}),
    ...(fields ? { fields: listOf(members, fields, { examples: [members.slice(0, 3)] }) } : {}),
    ...(include
      ? { include: listOf(relations, include, { maxItems: 3, examples: [relations.slice(0, 1)] }) }
      : {}),
  })
}

export function queryOf(resource: ResolvedResource, verb: Verb): TObject | undefined {
  if (verb === 'list') return withLists(resource, buildListParameters(resource))
  return verb === 'read' ? withLists(resource, buildSelectionParameters(resource)) : undefined
}

const pathId = (description: string, me: boolean | undefined) =>
  Type.String({
    ...(me ? {} : { format: 'uuid' }),
    description: me ? `${description}, or \`me\` for the caller` : description,
    examples: [me ? 'me' : exampleId],
  })

export function pathOf(resource: ResolvedResource, verb: Verb): TObject | undefined {
  const parent = resource.parent?.to
  const names = {
    ...(resource.parent && parent
      ? { [resource.parent.member]: pathId('The id of the parent', parent.me) }
      : {}),
    ...(verb === 'list' || verb === 'create' ? {} : { id: pathId('The id of the resource', resource.me) }),
  }
  return Object.keys(names).length > 0 ? Type.Object(names) : undefined
}
