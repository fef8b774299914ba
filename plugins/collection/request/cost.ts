/** What a list or a read costs: as how many requests it counts in rate limits and in the user's concurrency. */

import { getChunkSize, getMaxBytes } from '../reply-size.ts'
import type { ResolvedResource } from '../resolve.ts'
import { DEFAULT_LIMIT } from './parameters.ts'

/** A search may have to read every row, and so does a total. */
const SEARCH_COST = 4
const TOTAL_COST = 4
/** Up to 21 rows are read for each row of the page. */
const INCLUDED_LIST_COST = 2
/** A page that is read by several statements, since its rows may be large. */
const LARGE_PAGE_COST = 2

/**
 * Returns a function from a query, as it was sent, to its cost; 1 for most. A query that turns out to be invalid costs
 * the same.
 */
export function createCost(resource: ResolvedResource) {
  const chunkSize = getChunkSize(getMaxBytes(resource.schemas.read))
  const lists = new Set(Object.keys(resource.relations).filter((name) => resource.relations[name]?.many))
  const countLists = (include: unknown) =>
    typeof include === 'string' && lists.size > 0
      ? [...lists].filter((name) => include.split(',').includes(name)).length
      : 0

  return ({ search, page, include, limit }: Readonly<Record<string, unknown>>): number => {
    const rows = limit === undefined ? DEFAULT_LIMIT : Number(limit)
    let cost = 1
    if (search !== undefined) cost += SEARCH_COST
    if (page !== undefined) cost += TOTAL_COST
    if (include !== undefined) cost += INCLUDED_LIST_COST * countLists(include)
    if (rows >= chunkSize) cost += LARGE_PAGE_COST
    return cost
  }
}
