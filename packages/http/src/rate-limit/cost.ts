/** The cost of a request: the number of requests that it counts as in rate limits and concurrency. */
import type { Actor } from '@resource-api/api/actor'
import type { FastifyRequest } from 'fastify'

/** A search, a condition or a total may read every row. */
const SEARCH_COST = 4
const TOTAL_COST = 4
/**
 * Further values of a filter that add one request. Each value is a read of `limit` rows: 50 values take the database
 * 0.7 ms for pages of 20 rows and 2.7 ms for 100, one value takes 0.02 ms.
 */
const VALUES_PER_COST = 10
/** Reads up to 21 rows for each row of the page. */
const INCLUDED_LIST_COST = 2
/** Reads a page of large rows with several statements. */
const LARGE_PAGE_COST = 2
/** Each of these adds one request to the cost of a response. 8 MiB take about 100 ms of CPU, so 64 KiB take about 1 ms. */
export const BYTES_PER_COST = 65_536

/** The parameters of a list, and the sizes of its pages. */
export interface PricedList {
  filters: readonly string[]
  /** The filters that no index serves whatever their values: they cost as a search does. */
  conditions: readonly string[]
  /** The most values that a filter may have. */
  maxFilterValues: number
  /** The relations that `include` may add, with many rows for each row. */
  toMany: readonly string[]
  defaultLimit: number
  /** The limit from which the rows of a page may not fit into a response. */
  largePage: number
}

/** Creates a function that returns the cost of a query string, which is not yet validated. Most cost 1. */
export const createCost =
  ({ filters, conditions, maxFilterValues, toMany, defaultLimit, largePage }: PricedList) =>
  (query: Readonly<Record<string, unknown>>): number => {
    const { search, page, include, limit } = query
    const rows = limit === undefined ? defaultLimit : Number(limit)
    let cost = 1
    if (search !== undefined || conditions.some((name) => query[name] !== undefined)) cost += SEARCH_COST
    if (page !== undefined) cost += TOTAL_COST
    if (typeof include === 'string') {
      const names = include.split(',')
      cost += INCLUDED_LIST_COST * toMany.filter((name) => names.includes(name)).length
    }
    for (const name of filters) {
      const values = query[name]
      if (typeof values !== 'string') continue
      const count = values.includes(',') ? new Set(values.split(',')).size : 1
      cost += Math.floor((Math.min(count, maxFilterValues) - 1) / VALUES_PER_COST)
    }
    if (rows >= largePage) cost += LARGE_PAGE_COST
    return cost
  }

/** Adds the cost of a large response, of at least BYTES_PER_COST, to the caller's rate limit. */
export const countReplyBytes = (request: FastifyRequest, actor: Actor, bytes: number): Promise<void> =>
  request.server.limits.addCost(request, actor, Math.floor(bytes / BYTES_PER_COST))
