/** Finds the columns that a single UPDATE can set without reading the row first. */
import type { Resource } from '../resource.ts'

/** Types for which equality in SQL is equality in JSON, so that the statement can compare values. */
const COMPARABLE_TYPES = /^(text|bigint|smallint|boolean)\b/

/** Returns the columns whose new values depend on nothing else in the row; none if the resource has actions of its own. */
export function findSettableColumns(resource: Resource): ReadonlySet<string> {
  const { actions, columns, immutable = [], references, search, transitions = {} } = resource
  if (actions?.guard || actions?.prepare || actions?.change) return new Set()
  const dependent = new Set([
    ...immutable,
    ...Object.keys(transitions),
    ...references.map(({ field }) => field),
    // The search text is made of all of these fields, so the others must be read.
    ...('search' in columns ? search : []),
  ])
  return new Set(
    Object.entries(columns)
      .filter(([name, column]) => !dependent.has(name) && COMPARABLE_TYPES.test(column.getSQLType()))
      .map(([name]) => name),
  )
}
