/** Finds the row that a write changes. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { allows, type Rule } from '../../access/index.ts'
import type { Row } from '../definition.ts'
import { createNotFound, type ResourceAddress } from '../request/resource-address.ts'
import type { Lock } from '../resource.ts'
import type { OperationContext } from './context.ts'

/**
 * Returns the row of an address, which the caller may write.
 * @param rule the rows that the caller may write
 * @param lock on the row, until the transaction ends
 * @throws ApiError 404 if it does not exist; 403, or 404 with HIDE_FORBIDDEN, if the caller may not write it
 */
export async function findRow(
  { app, resource }: OperationContext,
  connection: Connection,
  { id, actor, parent: parentId }: ResourceAddress,
  rule: Rule,
  lock?: Lock,
): Promise<Row> {
  const { parent, select } = resource
  const row = await select.whole(connection, id, lock)
  if (!row || (parent && row[parent.member] !== parentId)) throw createNotFound(resource, id)
  if (allows(rule, row, actor)) return row
  throw app.refusal(() => createNotFound(resource, id))
}
