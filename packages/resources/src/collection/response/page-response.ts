/** The response of a list: its Link header (RFC 8288), and large ones in pieces, which block the event loop only briefly. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createKeyedQueue } from '@resource-api/database/internal'
import { addLinks, type Page, type Pagination } from '@resource-api/http/internal'
import type { FastifyReply, FastifyRequest } from 'fastify'
import createLimit from 'p-limit'
import { MAX_OFFSET } from '../request/parameters.ts'

/**
 * Sets the links of a page: `next` and `first`; with `page` also `prev` and `last`, up to the deepest page allowed. They
 * have the form of address that the client used, and follow the link of a deprecated version to its successor.
 */
export function setLinks(
  { raw, server }: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string | undefined,
  pagination: Pagination,
  limit: number,
): void {
  const { form, path, query } = server.addressing.getAddress(raw)
  const parameters = new URLSearchParams(query)
  parameters.delete('cursor')
  parameters.delete('page')
  const address = `${publicUrl ?? ''}${form}${path}`
  const rest = parameters.toString()
  const links: string[] = []
  // Numbers and cursors need no percent-encoding.
  const add = (rel: string, position: string) => {
    const text = rest && position ? `${rest}&${position}` : rest || position
    links.push(`<${address}${text && '?'}${text}>; rel="${rel}"`)
  }
  if ('page' in pagination) {
    const { page, total_pages } = pagination
    const pages = Math.min(total_pages, Math.floor(MAX_OFFSET / limit) + 1)
    if (page < pages) add('next', `page=${page + 1}`)
    add('first', 'page=1')
    if (page > 1) add('prev', `page=${Math.max(1, Math.min(page - 1, pages))}`)
    if (pages > 0) add('last', `page=${pages}`)
  } else {
    // A list that may grow has a cursor after its last page too.
    if (pagination.cursor !== null && pagination.has_more) add('next', `cursor=${pagination.cursor}`)
    add('first', '')
  }
  addLinks(reply, ...links)
}

/** Lists up to this estimated size are serialized in one step, by Fastify. A list of 8 MiB takes about 100 ms of CPU. */
export const MAX_BYTES_AT_ONCE = 524_288
/** After this time, serialization yields to other requests. */
const MAX_PIECE_MS = 2
/** Reads and serializes large pages one at a time for each user: a page of 8 MiB takes 40 MiB of memory. */
export const largePages = createKeyedQueue()

/** One list at a time, so that pieces of several lists do not add up in one iteration of the event loop. */
const queue = createLimit(1)

/** Runs a short piece of work, and lets other requests run before the next piece of any list. */
export const runPiece = <T>(work: () => T): Promise<T> =>
  queue(async () => {
    const result = work()
    await nextTurn()
    return result
  })

const BEFORE_ITEMS = '{"data":['

/**
 * Serializes a page, item by item.
 * @returns the UTF-8 text
 */
export const serializeInPieces = (reply: FastifyReply, page: Page): Promise<Buffer> =>
  queue(async () => {
    const serialize = reply.getSerializationFunction('200', 'application/json')
    if (!serialize) throw new Error('The route has no schema for 200')
    const empty = serialize({ ...page, data: [] })
    if (!empty.startsWith(`${BEFORE_ITEMS}]`)) throw new Error('A page does not begin with its data')
    const afterItems = empty.slice(BEFORE_ITEMS.length)
    const pieces: Buffer[] = []
    let separator = BEFORE_ITEMS
    let startedAt = performance.now()
    for (const item of page.data) {
      const text = serialize({ ...page, data: [item] })
      pieces.push(Buffer.from(separator + text.slice(BEFORE_ITEMS.length, -afterItems.length)))
      separator = ','
      if (performance.now() - startedAt > MAX_PIECE_MS) {
        await nextTurn()
        startedAt = performance.now()
      }
    }
    pieces.push(Buffer.from(page.data.length === 0 ? empty : afterItems))
    return Buffer.concat(pieces)
  })
