/** The schemas of a resource with `fields`: those for all roles, and those of each role that differs. */
import { type Actor, type CallerRole, formatActor } from '@resource-api/api/actor'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { ResourceDefinition } from './definition.ts'
import { callerRoles, type FieldRule, isWritten, mayRead, mayWrite } from './fields.ts'
import type { Resource } from './resource.ts'

type Restricted = Pick<ResourceDefinition, 'fields' | 'schemas'>

const withProperties = (
  { properties: _, required: __, ...options }: TObject,
  properties: readonly (readonly [string, TSchema])[],
): TObject => Type.Object(Object.fromEntries(properties), options)

const describeRoles = (verb: string, permitted: readonly CallerRole[] | undefined): string[] =>
  permitted ? [`${verb} by: ${permitted.join(', ') || 'no role'}`] : []

const describeReaders = ({ read }: FieldRule) => describeRoles('Read', read)
const describeWriters = ({ read, write = read }: FieldRule) => describeRoles('Written', write)

/** Returns the schemas for all roles. They say who may read and write a field. */
export function buildSchemas({ fields, schemas }: Restricted): ResourceDefinition['schemas'] {
  if (!fields) return schemas
  const annotate = (
    schema: TObject,
    describe: (rule: FieldRule, name: string) => string[],
    isOptional: (rule: FieldRule) => boolean,
  ) => {
    const annotated = Object.entries<TSchema>(schema.properties).map(([name, property]) => {
      const rule = fields[name]
      const texts = rule ? describe(rule, name) : []
      if (!rule || texts.length === 0) return [name, property] as const
      const description = [property.description ?? [], texts].flat().join('. ')
      const described = { ...property, description }
      return [name, isOptional(rule) ? Type.Optional(described) : described] as const
    })
    return withProperties(schema, annotated)
  }
  const describeAll = (rule: FieldRule, name: string) => [
    ...describeReaders(rule),
    ...(isWritten(schemas, name) ? describeWriters(rule) : []),
  ]
  return {
    // A response need not have a field that some role may not read, nor PUT one that some role may not write.
    read: annotate(schemas.read, describeAll, ({ read }) => read !== undefined),
    create: annotate(schemas.create, describeWriters, () => false),
    change: annotate(schemas.change, describeWriters, () => true),
  }
}

/** Returns the fields that PUT keeps if they are absent: those of the definition, and those that a role may not write. */
export const listKept = ({
  fields = {},
  kept = [],
  schemas: { change },
}: Restricted & Pick<ResourceDefinition, 'kept'>): string[] => [
  ...kept,
  ...Object.entries(fields).flatMap(([name, { read, write = read }]) =>
    write && name in change.properties ? [name] : [],
  ),
]

/** Returns a resource as a role sees it; undefined if neither it nor a relation differs from that of all roles. */
function buildView(resource: Resource, role: CallerRole): Resource | undefined {
  const { fields = {}, relations, schemas } = resource
  const hidden = Object.keys(fields).filter((name) => !mayRead(fields[name], role))
  const readOnly = Object.keys(fields).filter((name) => !mayWrite(fields[name], role))
  const hidesRelated = Object.values(relations).some(({ to }) =>
    Object.values(to.fields ?? {}).some((rule) => !mayRead(rule, role)),
  )
  if (readOnly.length === 0 && !hidesRelated) return undefined

  const keep = (names: readonly string[] = []) => names.filter((name) => !hidden.includes(name))
  const keepEntries = <T>(object: Readonly<Record<string, T>>) =>
    Object.entries(object).filter(([name]) => !hidden.includes(name))
  const narrow = (schema: TObject) => withProperties(schema, keepEntries(schema.properties))
  const related = Object.entries(relations).map(([name, { filters = [], ...relation }]) => [
    name,
    { ...relation, filters: filters.filter((field) => mayRead(relation.to.fields?.[field], role)) },
  ])
  return {
    ...resource,
    hidden,
    readOnly,
    schemas: { read: narrow(schemas.read), create: narrow(schemas.create), change: narrow(schemas.change) },
    filters: keep(resource.filters),
    negations: keep(resource.negations),
    nullChecks: keep(resource.nullChecks),
    prefixes: keep(resource.prefixes),
    ranges: keep(resource.ranges),
    ...(resource.aggregates && {
      aggregates: {
        measures: keep(resource.aggregates.measures),
        groups: keep(resource.aggregates.groups),
      },
    }),
    sorts: Object.fromEntries(keepEntries(resource.sorts)),
    relations: hidesRelated ? Object.fromEntries(related) : relations,
  }
}

/** Adds the views of all roles to a resource whose relations are complete. */
export function addRoleViews(resource: Resource): void {
  const views = new Map<CallerRole, Resource>()
  resource.forRole = (role) => views.get(role) ?? resource
  for (const role of callerRoles) {
    const view = buildView(resource, role)
    if (view) views.set(role, view)
  }
}

/** Returns a text that differs between roles that see the resource differently; empty for those that see all fields. */
export const getRoleTag = (resource: Resource, { role }: Actor): string =>
  resource.forRole(role).hidden.join()

/** Returns a text that differs between callers who see the resource differently; empty for those who see all fields. */
export const getViewTag = (resource: Resource, actor: Actor): string =>
  resource.computed ? formatActor(actor) : getRoleTag(resource, actor)
