/** Derives a resource as a role sees it: without the fields that the role may not read. */
import type { TObject } from '@sinclair/typebox'
import type { CallerRole } from '../../access/actor.ts'
import type { Resource } from '../resource.ts'
import { getToInternal } from './selection.ts'

const without = (schema: TObject, isHidden: (name: string) => boolean): TObject => ({
  ...schema,
  properties: Object.fromEntries(Object.entries(schema.properties).filter(([name]) => !isHidden(name))),
})

/** Returns a function that says of a name of the version whether the role may not read it; undefined if it may read all. */
export const createIsHidden = (resource: Resource, role: CallerRole) => {
  const hidden = resource.restrictions?.get(role)?.hidden
  const toInternal = getToInternal(resource)
  return hidden?.size ? (name: string) => hidden.has(toInternal(name)) : undefined
}

/** Returns the resource for query strings of a role; undefined if the role may read all fields, those of relations included. */
export function getRoleView(resource: Resource, role: CallerRole): Resource | undefined {
  const { published, relations, schemas } = resource
  const isHiddenHere = createIsHidden(resource, role)
  const hasHidden = Object.values(relations).some(({ to }) => createIsHidden(to, role))
  if (!isHiddenHere && !hasHidden) return undefined
  const isHidden = isHiddenHere ?? (() => false)
  const keep = (names: readonly string[] = []) => names.filter((name) => !isHidden(name))
  const related = Object.entries(published.relations).map(([name, relation]) => {
    const to = relations[name]?.to
    const isHiddenThere = to && createIsHidden(to, role)
    const filters = relation.filters?.filter((field) => !isHiddenThere?.(field)) ?? []
    return [name, { ...relation, filters }] as const
  })
  const hidden = resource.restrictions?.get(role)?.hidden
  return {
    ...resource,
    schemas: { ...schemas, create: without(schemas.create, (name) => hidden?.has(name) ?? false) },
    published: {
      ...published,
      schemas: { ...published.schemas, read: without(published.schemas.read, isHidden) },
      filters: keep(published.filters),
      negations: keep(published.negations),
      nullChecks: keep(published.nullChecks),
      prefixes: keep(published.prefixes),
      ranges: keep(published.ranges),
      sorts: Object.fromEntries(Object.entries(published.sorts).filter(([name]) => !isHidden(name))),
      relations: Object.fromEntries(related),
    },
  }
}
