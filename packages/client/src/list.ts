/** Reads a list: one page, or all of them. */
import type { ApiResponse } from './response.ts'
import type { Meta, Pagination } from './types.ts'

/** The largest page that the server returns. */
const MAX_LIMIT = 100

/** One page of a list. */
export interface Page<Paths, P extends string, Item> {
  data: Item[]
  /** The cursor or the page numbers, as the server returned them. */
  pagination: Pagination<Paths, P>
  meta: Meta
  /** Whether there is another page. */
  hasNext: boolean
  /** Returns the next page, or null after the last one. */
  next(): Promise<Page<Paths, P, Item> | null>
}

/** A response with the members that the pages of all lists have. */
type PageResponse<Paths, P extends string, Item> = ApiResponse<Item[]> & { pagination: Pagination<Paths, P> }

type Query = Record<string, unknown>

/** Returns the part of the query that leads to the next page, or null after the last page. */
function getNextQuery(pagination: unknown): Query | null {
  // The document has two forms of pagination; each has the members of one of these branches.
  const { cursor, has_more, page, total_pages } = pagination as {
    cursor?: string | null
    has_more?: boolean
    page?: number
    total_pages?: number
  }
  if (page !== undefined && total_pages !== undefined) return page < total_pages ? { page: page + 1 } : null
  return has_more === true && typeof cursor === 'string' ? { cursor } : null
}

/** A list whose requests are sent when it is iterated, or when a page is requested. */
export class List<Paths, P extends string, Item> implements AsyncIterable<Item> {
  readonly #query: Query
  readonly #read: (query: Query) => Promise<PageResponse<Paths, P, Item>>

  constructor(query: Query, read: (query: Query) => Promise<PageResponse<Paths, P, Item>>) {
    this.#query = query
    this.#read = read
  }

  /** Returns the first page, or the one that `cursor` or `page` selects. */
  async page(): Promise<Page<Paths, P, Item>> {
    return this.#readPage(this.#query)
  }

  /** Iterates over the pages. Without `limit`, a page has up to 100 resources. */
  async *pages(): AsyncGenerator<Page<Paths, P, Item>, void, undefined> {
    let page: Page<Paths, P, Item> | null = await this.#readPage({
      ...this.#query,
      limit: this.#query.limit ?? MAX_LIMIT,
    })
    while (page !== null) {
      yield page
      page = await page.next()
    }
  }

  /** Iterates over the resources of all pages, and requests each page when it is needed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) yield* page.data
  }

  /** Returns the resources of all pages. */
  async toArray(): Promise<Item[]> {
    const items: Item[] = []
    for await (const item of this) items.push(item)
    return items
  }

  async #readPage(query: Query): Promise<Page<Paths, P, Item>> {
    const { data, pagination, meta } = await this.#read(query)
    const nextQuery = getNextQuery(pagination)
    return {
      data,
      pagination,
      // Every response of a list has metadata.
      meta: meta as Meta,
      hasNext: nextQuery !== null,
      next: async () => (nextQuery === null ? null : this.#readPage({ ...query, ...nextQuery })),
    }
  }
}
