/** Compiles definitions to resources, once at boot: relations, statements and row mappers. */
import type { ResourceDefinition } from './definition.ts'
import { type ResolvedResource, resolveResources } from './resolve.ts'
import { createRowMapper, type RowMapper } from './sql/row-mapper.ts'
import { createSelect, type Select } from './sql/select.ts'
import { createStores, type Stores } from './sql/write.ts'

/** A relation of a compiled resource. */
export type CompiledRelation = Omit<ResolvedResource['relations'][string], 'to'> & { to: Resource }

export interface Resource extends Omit<ResolvedResource, 'relations' | 'parent'> {
  relations: Readonly<Record<string, CompiledRelation>>
  parent?: { to: Resource; member: string }
  /** Reads rows. */
  select: Select
  /** Writes rows. */
  stores: Stores
  /** Maps rows to resources of a response. */
  toEntity: RowMapper
}

/**
 * Compiles all resources of an app.
 * @throws Error if a definition names a resource that is not among them
 */
export function compileResources(definitions: readonly ResourceDefinition[]): Resource[] {
  const compiled = new Map<ResolvedResource, Resource>()
  const resolved = resolveResources(definitions)
  const compile = (resource: ResolvedResource): Resource => {
    const known = compiled.get(resource)
    if (known) return known
    const { relations, parent, ...rest } = resource
    const made: Resource = {
      ...rest,
      relations: {},
      select: createSelect(resource),
      stores: createStores(resource),
      toEntity: createRowMapper(resource),
    }
    // Before the relations: resources refer to each other.
    compiled.set(resource, made)
    made.relations = Object.fromEntries(
      Object.entries(relations).map(([name, relation]) => [name, { ...relation, to: compile(relation.to) }]),
    )
    if (parent) made.parent = { ...parent, to: compile(parent.to) }
    return made
  }
  return resolved.map(compile)
}
