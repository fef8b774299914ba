/** Compiles definitions to resources, once at boot: relations, statements and row mappers. */

import type { Recorders } from '../outbox/recorder.ts'
import { checkDefinitions } from './check/definitions.ts'
import type { ResourceDefinition } from './definition.ts'
import { type Reference, type Relation, type ResolvedResource, resolveResources } from './resolve.ts'
import { createRowMapper, type RowMapper } from './sql/row-mapper.ts'
import { createSelect, type Select } from './sql/select.ts'
import { createStores, type Stores } from './sql/write.ts'

export interface Resource extends ResolvedResource {
  relations: Readonly<Record<string, Relation & { to: Resource }>>
  parent?: { to: Resource; member: string }
  references: readonly (Reference & { to: Resource })[]
  /** Reads rows. */
  select: Select
  /** Writes rows. */
  stores: Stores
  /** Maps rows to resources of a response. */
  toEntity: RowMapper
}

/**
 * Compiles all resources of an app.
 * @param versions the versions of the app
 * @param recorders records the changes; without, no events are written
 * @throws Error with all mistakes in the definitions
 */
export function compileResources(
  definitions: readonly ResourceDefinition[],
  versions: readonly number[],
  recorders: Recorders = new Map(),
): Resource[] {
  checkDefinitions(definitions, versions)
  const resources = resolveResources(definitions)
  for (const resource of resources) {
    Object.assign(resource, {
      select: createSelect(resource),
      stores: createStores(resource, recorders),
      toEntity: createRowMapper(resource),
    } satisfies Omit<Resource, keyof ResolvedResource>)
  }
  // Relations, references and parents are among these resources, so each of them has been compiled.
  return resources as Resource[]
}
