/** The seed context: the input of every demo row. The same context creates the same rows. */
import type { Pools } from './pools.ts'
import type { Timeline } from './timeline.ts'

/** The number of rows per collection; all follow from the number of users. */
export interface Counts {
  users: number
  profiles: number
  posts: number
  products: number
  orders: number
}

type Searchable = 'users' | 'profiles' | 'posts' | 'products' | 'orders'

/** Functions that return the content of a row's `search` column, as the server writes it. */
export type SearchTextBuilders = Readonly<
  Record<Searchable, (row: Readonly<Record<string, unknown>>) => string>
>

export interface SeedContext {
  seed: number
  counts: Counts
  timeline: Timeline
  pools: Pools
  searchTextBuilders: SearchTextBuilders
}

const PROFILE_SHARE = 0.7

export const getCounts = (users: number): Counts => ({
  users,
  profiles: Math.ceil(users * PROFILE_SHARE),
  posts: users,
  products: 2 * users,
  orders: 5 * users,
})

/** Returns whether the user with this index has a profile. */
export const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILE_SHARE) > Math.ceil(index * PROFILE_SHARE)
