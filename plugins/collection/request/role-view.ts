/** Derives a resource as a role sees it: without the fields that the role may not read. */
import type { TObject } from '@sinclair/typebox'
import type { CallerRole } from '../../access/actor.ts'
import type { Resource } from '../resource.ts'

const without = (schema: TObject, isHidden: (name: string) => boolean): TObject => ({
  ...schema,
  properties: Object.fromEntries(Object.entries(schema.properties).filter(([name]) => !isHidden(name))),
})

/** Returns a function that says of a field whether the role may not read it; undefined if it may read all. */
export const createIsHidden = ({ restrictions }: Resource, role: CallerRole) => {
  const hidden = restrictions?.get(role)?.hidden
  return hidden?.size ? (name: string) => hidden.has(name) : undefined
}

/** Returns the resource for query strings of a role; undefined if the role may read all fields, those of relations included. */
export function getRoleView(resource: Resource, role: CallerRole): Resource | undefined {
  const { relations, schemas } = resource
  const isHiddenHere = createIsHidden(resource, role)
  const hasHidden = Object.values(relations).some(({ to }) => createIsHidden(to, role))
  if (!isHiddenHere && !hasHidden) return undefined
  const isHidden = isHiddenHere ?? (() => false)
  const keep = (names: readonly string[] = []) => names.filter((name) => !isHidden(name))
  const related = Object.entries(relations).map(([name, relation]) => {
    const isHiddenThere = createIsHidden(relation.to, role)
    const filters = relation.filters?.filter((field) => !isHiddenThere?.(field)) ?? []
    return [name, { ...relation, filters }] as const
  })
  return {
    ...resource,
    schemas: {
      ...schemas,
      read: without(schemas.read, isHidden),
      create: without(schemas.create, isHidden),
    },
    filters: keep(resource.filters),
    negations: keep(resource.negations),
    nullChecks: keep(resource.nullChecks),
    prefixes: keep(resource.prefixes),
    ranges: keep(resource.ranges),
    sorts: Object.fromEntries(Object.entries(resource.sorts).filter(([name]) => !isHidden(name))),
    relations: Object.fromEntries(related),
  }
}
