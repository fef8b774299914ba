/** What every row of the demo data is made from: the same world makes the same rows. */
import type { Pools } from './pools.ts'
import type { Timeline } from './timeline.ts'

/** How many there are of what; profiles, posts, products and orders follow from the users. */
export interface Counts {
  users: number
  profiles: number
  posts: number
  products: number
  orders: number
}

type Searchable = 'users' | 'profiles' | 'posts' | 'products' | 'orders'

/** The text that a row is found by, as the server would write it; it is not for this room to know how that is done. */
export type Folding = Readonly<Record<Searchable, (row: Readonly<Record<string, unknown>>) => string>>

export interface World {
  seed: number
  counts: Counts
  timeline: Timeline
  pools: Pools
  search: Folding
}

const PROFILES = 0.7

export const countsOf = (users: number): Counts => ({
  users,
  profiles: Math.ceil(users * PROFILES),
  posts: users,
  products: 2 * users,
  orders: 5 * users,
})

/** Whether the user of this index has a profile. */
export const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILES) > Math.ceil(index * PROFILES)
