/** The seed context: the input of every demo row. The same context creates the same rows. */
import type { Pools } from './pools.ts'
import type { Timeline } from './timeline.ts'

/** The numbers of rows that other rows are spread over; all follow from the number of users. */
interface Counts {
  users: number
  products: number
  orders: number
}

export interface SeedContext {
  seed: number
  counts: Counts
  timeline: Timeline
  pools: Pools
  /** Returns the content of the `search` column of a row of a resource, as the server writes it. */
  getSearchText(resource: string, row: Readonly<Record<string, unknown>>): string
}

export const PRODUCTS_PER_USER = 2

export const getCounts = (users: number): Counts => ({
  users,
  products: PRODUCTS_PER_USER * users,
  orders: 5 * users,
})
