/** The fast path of PATCH: a single UPDATE that also checks access and whether the values differ. */
import type { Database } from '../../../drizzle/client/types.ts'
import { getRule } from '../../access/index.ts'
import type { Resource } from '../compile.ts'
import type { Row } from '../definition.ts'
import type { Write } from './types.ts'

/** Types for which equality in SQL is equality in JSON, so that the statement can compare values. */
const COMPARABLE_TYPES = /^(text|bigint|smallint|boolean)\b/

/** Creates the function that returns updates which do not read the row first. */
export function createUnreadUpdates(resource: Resource, database: Database) {
  const { access, actions, columns, immutable = [], references, search, stores, transitions = {} } = resource
  const dependent = new Set([
    ...immutable,
    ...Object.keys(transitions),
    ...references.map(({ field }) => field),
    // The search text is made of all of these fields, so the others must be read.
    ...('search' in columns ? search : []),
  ])
  const settable = new Set(
    Object.entries(columns)
      .filter(([name, column]) => !dependent.has(name) && COMPARABLE_TYPES.test(column.getSQLType()))
      .map(([name]) => name),
  )
  const hasNoActions = !actions?.guard && !actions?.prepare && !actions?.change

  /**
   * Returns the update of these fields; undefined if the row must be read for it. The update resolves to undefined if it
   * changed no row: it does not exist, belongs to another user, or has these values already.
   */
  return (
    { id, actor, parent, origin }: Write,
    fields: Readonly<Record<string, unknown>>,
  ): (() => Promise<Row | undefined>) | undefined => {
    const names = Object.keys(fields)
    const rule = getRule(access, 'update', actor)
    const isPossible = hasNoActions && names.length > 0 && rule !== false
    if (!isPossible || !names.every((name) => settable.has(name))) return undefined
    return () => stores.updateUnread(database, { id, parent, rule, actor, origin }, fields)
  }
}
