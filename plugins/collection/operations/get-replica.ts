/** Chooses the connection of a read. */
import type { Connection, Database } from '../../../drizzle/client/types.ts'
import type { Actor } from '../../access/index.ts'
import type { Resource } from '../resource.ts'

/**
 * Returns the replica for a request; undefined if the resource or one that it includes is read from the primary.
 * @param include the names of the included relations
 */
export function getReplica(
  { replicas }: Database,
  resource: Resource,
  actor: Actor,
  include: readonly string[],
): Connection | undefined {
  const read = [resource, ...include.map((name) => resource.relations[name]?.to)]
  return read.some((each) => each?.readsPrimary) ? undefined : replicas?.getReader(actor.userId)
}
