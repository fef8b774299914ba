/** Compiles definitions to resources, once at boot: relations, statements and row mappers. */
import type { ResourceDefinition } from './definition.ts'
import { ensureIndexed } from './ensure-indexed.ts'
import { type Relation, type ResolvedResource, resolveResources } from './resolve.ts'
import { createRowMapper, type RowMapper } from './sql/row-mapper.ts'
import { createSelect, type Select } from './sql/select.ts'
import { createStores, type Stores } from './sql/write.ts'

/** A relation of a compiled resource. */
export type CompiledRelation = Relation & { to: Resource }

export interface Resource extends ResolvedResource {
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
 * @throws Error if a definition names a resource that is not among them, or a filter without an index
 */
export function compileResources(definitions: readonly ResourceDefinition[]): Resource[] {
  const resources = resolveResources(definitions)
  for (const resource of resources) {
    ensureIndexed(resource)
    Object.assign(resource, {
      select: createSelect(resource),
      stores: createStores(resource),
      toEntity: createRowMapper(resource),
    } satisfies Omit<Resource, keyof ResolvedResource>)
  }
  // Relations and parents are among these resources, so each of them has been compiled.
  return resources as Resource[]
}
