/** Computes the cost of a list or a read: the number of requests that it counts as in rate limits and concurrency. */
import { getChunkSize, getMaxBytes } from '../reply-size.ts'
import type { ResolvedResource } from '../resolve.ts'
import { DEFAULT_LIMIT } from './parameters.ts'

/** A search or a total may read every row. */
const SEARCH_COST = 4
const TOTAL_COST = 4
/** Reads up to 21 rows for each row of the page. */
const INCLUDED_LIST_COST = 2
/** Reads a page of large rows with several statements. */
const LARGE_PAGE_COST = 2

/**
 * Creates a function that returns the cost of a query string, which is not yet validated. Most cost 1. An invalid query
 * costs the same as a valid one.
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
