/** A step of the seed: the rows of a resource, computed from the number of the seed and the index of the row. */
import type { ResourceDefinition } from '@resource-api/resources/internal'
import type { PgSequence, PgTable } from 'drizzle-orm/pg-core'
import type { Random } from './random.ts'

export const DAY_MS = 86_400_000
/** Rows are spread evenly over two years: the higher a row's index, the later its creation. */
const SPAN_MS = 730 * DAY_MS

export interface SeedContext {
  /** The same seed creates the same data. */
  seed: number
  /** The number of users, from which all other numbers follow. */
  users: number
  /** The end of the two years over which the data is spread, in epoch milliseconds. */
  until: number
}

/** One kind of rows. */
export interface SeedStep {
  resource: ResourceDefinition
  /** The tables, by the label of their rows in the summary. */
  tables: Readonly<Record<string, PgTable>>
  indicesPerUser: number
  /** A sequence of which each index draws a number. */
  sequence?: PgSequence
  /**
   * Returns the rows of an index, by label, with a value for every column, since defaults are not applied. Only `search`
   * is filled in afterwards.
   * @param number of the sequence
   */
  build(
    context: SeedContext,
    index: number,
    number: number,
  ): Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>
}

export type RowOf<T extends PgTable> = Omit<T['$inferSelect'], 'search'>

/** Returns the creation time of a row: a moment in one of `count` equal slots; row 0 gets the start of its slot. */
export function getMoment({ until }: SeedContext, index: number, count: number, random: Random): number {
  const offset = random.fraction()
  return until - SPAN_MS + Math.floor(((index + (index === 0 ? 0 : offset)) / count) * SPAN_MS)
}

/** Returns how many of `count` rows have been created by a moment; at least 1. */
export const countBefore = ({ until }: SeedContext, moment: number, count: number): number =>
  Math.max(1, Math.floor(((moment - until + SPAN_MS) / SPAN_MS) * count))

export const toIsoString = (moment: number): string => new Date(moment).toISOString()

/** Returns the columns that every resource has, of a row that was changed `changes` times, at last at `updated`. */
export const buildBase = (random: Random, created: number, updated = created, changes = 0) => ({
  id: random.uuid(created),
  created_at: toIsoString(created),
  updated_at: toIsoString(updated),
  revision: 1 + changes,
})
