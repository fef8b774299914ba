/** What the files `test/{name}.examples.ts` export and use: valid bodies for the tests of all resources. */
import type { Static, TObject } from '@sinclair/typebox'

/** @typeParam S the schema for creating the resource */
export interface Examples<S extends TObject = TObject> {
  /**
   * Returns a valid body of POST, another one for each number: unique values differ, and periods do not overlap. The
   * example id stands for a new row in a reference, and the owner may be absent.
   */
  create(n: number): Partial<Static<S>>
  /** Returns a valid body of PATCH that changes a row. Default: another text, or another number. */
  change?(n: number): Partial<Static<S>>
}

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 11, 1)

/** Returns the time that is some hours into the day `n` of the examples. */
export const getTime = (n: number, hours: number): string =>
  new Date(START + n * DAY_MS + hours * 3_600_000).toISOString()

/** Returns a day: the first ones of each number are a week apart. */
export const getDay = (n: number, offset: number): string => getTime(7 * n + offset, 0).slice(0, 10)
