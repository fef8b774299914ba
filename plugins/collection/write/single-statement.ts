/** The fast path of PATCH: a single UPDATE that also checks access and whether the values differ. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { getRule } from '../../access/index.ts'
import type { Resource } from '../compile.ts'
import type { Write } from './types.ts'

/** Types for which equality in SQL is equality in JSON, so that the statement can compare values. */
const COMPARABLE_TYPES = /^(text|bigint|smallint|boolean)\b/

/** Creates the update that does not read the row first. */
export function createUnreadUpdate({
  access,
  actions,
  columns,
  immutable = [],
  search,
  stores,
  transitions = {},
}: Resource) {
  const dependent = new Set([
    ...immutable,
    ...Object.keys(transitions),
    // The search text is made of all of these fields, so the others must be read.
    ...('search' in columns ? search : []),
  ])
  const settable = new Set(
    Object.entries(columns)
      .filter(([name, column]) => !dependent.has(name) && COMPARABLE_TYPES.test(column.getSQLType()))
      .map(([name]) => name),
  )
  const hasNoActions = !actions?.guard && !actions?.prepare && !actions?.change

  return {
    /** Returns whether the fields can be changed without reading the row. */
    suits({ actor }: Write, fields: Readonly<Record<string, unknown>>): boolean {
      const names = Object.keys(fields)
      return (
        hasNoActions &&
        names.length > 0 &&
        getRule(access, 'update', actor) !== false &&
        names.every((name) => settable.has(name))
      )
    },

    /**
     * Runs the update. Resolves to undefined if no row was changed: it does not exist, belongs to another user, or has
     * these values already.
     */
    run: (connection: Connection, { id, actor, parent }: Write, fields: Readonly<Record<string, unknown>>) =>
      stores.updateUnread(connection, { id, parent, rule: getRule(access, 'update', actor), actor }, fields),
  }
}
