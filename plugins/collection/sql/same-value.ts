/** Compares values of columns with each other, as they are stored and as clients send them. */
import type { PgColumn } from 'drizzle-orm/pg-core'

/** Compares two values as JSON; the order of an object's properties does not matter. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return (
    left.length === right.size &&
    left.every(([name, value]) => right.has(name) && isSame(value, right.get(name)))
  )
}

/** Compares timestamps by the millisecond: a row has microseconds, which a client never sees. */
const isSameTime = (a: unknown, b: unknown) =>
  typeof a === 'string' && typeof b === 'string' && Date.parse(a) === Date.parse(b)

/** Creates a function that returns whether a column has the same value before and after a write. */
export function createIsSameIn(columns: Readonly<Record<string, PgColumn>>) {
  const times = new Set(
    Object.keys(columns).filter((name) => columns[name]?.columnType.startsWith('PgTimestamp')),
  )
  return (name: string, a: unknown, b: unknown): boolean =>
    isSame(a, b) || (times.has(name) && isSameTime(a, b))
}
