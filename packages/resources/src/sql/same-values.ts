/** Compares the values of columns before and after a write. */
import { isDeepStrictEqual } from 'node:util'
import type { Values } from '@resource-api/database/client'
import type { PgColumn } from 'drizzle-orm/pg-core'

/** Compares timestamps by the millisecond: a row has microseconds, which a client never sees. */
const isSameTime = (a: unknown, b: unknown) =>
  typeof a === 'string' && typeof b === 'string' && Date.parse(a) === Date.parse(b)

/** Creates a function that returns whether a column has the same value before and after a write. */
function createIsSameIn(columns: Readonly<Record<string, PgColumn>>) {
  const times = new Set(
    Object.keys(columns).filter((name) => columns[name]?.columnType.startsWith('PgTimestamp')),
  )
  return (name: string, a: unknown, b: unknown): boolean =>
    a === b || isDeepStrictEqual(a, b) || (times.has(name) && isSameTime(a, b))
}

/** Creates a function that returns those of the new values that differ from the former ones: what a write changes. */
export function createPickChanged(columns: Readonly<Record<string, PgColumn>>) {
  const isSameIn = createIsSameIn(columns)
  return (former: Values, values: Values): Values => {
    const changed: Record<string, unknown> = {}
    for (const name of Object.keys(values)) {
      if (!isSameIn(name, values[name], former[name])) changed[name] = values[name]
    }
    return changed
  }
}
