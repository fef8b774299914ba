/** Checks that the caller may read the rows that a write refers to. */
import type { Connection } from '@resource-api/database'
import { invalidBody } from '@resource-api/http'
import { type Actor, getRule, narrowRule } from '@resource-api/http/internal'
import type { Resource } from '../resource.ts'
import type { OpenReference } from '../used-rights.ts'

/**
 * Returns the references among the named fields of a row that have to be checked: not those to the caller, and none to a
 * resource of which the caller may read all rows. That a row exists is checked by its foreign key.
 */
export function findOpenReferences(
  references: Resource['references'],
  row: Readonly<Record<string, unknown>>,
  names: Iterable<string>,
  actor: Actor,
): OpenReference[] {
  const sent = new Set(names)
  return references.flatMap(({ field, to, foreign }) => {
    const value = row[field]
    if (!sent.has(field) || value === null || value === undefined) return []
    // Without an operation that reads one row, that of lists decides.
    const rule = getRule(to.access, to.access.read ? 'read' : 'list', actor)
    const remaining = narrowRule(rule, foreign, value, actor)
    return remaining === true ? [] : { field, to, foreign, value, rule, isRefused: remaining === false }
  })
}

/** Returns whether the caller may read the row. */
export const isReadable = async (
  connection: Connection,
  { to, foreign, value, rule, isRefused }: OpenReference,
  actor: Actor,
): Promise<boolean> => !isRefused && to.select.isReadable(connection, foreign, value, { rule, actor })

/** @throws ApiError 422, the same as for a row that does not exist */
export async function checkReferences(
  connection: Connection,
  open: readonly OpenReference[],
  actor: Actor,
): Promise<void> {
  const refused: string[] = []
  for (const reference of open) {
    if (!(await isReadable(connection, reference, actor))) refused.push(reference.field)
  }
  if (refused.length === 0) return
  throw invalidBody(refused.sort().map((field) => ({ field, message: 'does not exist', code: 'NOT_FOUND' })))
}
