/** Serializes large lists in pieces, so that no reply holds the event loop for long. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import createLimit from 'p-limit'
import { createKeyedQueue } from '../../../lib/keyed-queue.ts'
import type { MaybePromise } from '../../../lib/maybe-promise.ts'
import type { Actor } from '../../access/index.ts'
import type { Page } from '../../versioning/representation/types.ts'

/** Lists up to about this size are serialized in one step, by Fastify. A list of 8 MiB takes about 100 ms of CPU in all. */
export const MAX_BYTES_AT_ONCE = 524_288
/** How long one piece may take before other requests get their turn. */
const MAX_PIECE_MS = 2
/** A reply counts as one request more for each of these. 8 MiB take about 100 ms of CPU, so 64 KiB take about 1 ms. */
export const BYTES_PER_COST = 65_536

/**
 * Adds the size of a large reply to what its request counts as in the user's rate limit.
 * @param bytes about how many the reply has
 */
export const countReplyBytes = (request: FastifyRequest, actor: Actor, bytes: number): MaybePromise<void> =>
  bytes < BYTES_PER_COST || actor.credential === 'none'
    ? undefined
    : request.server.limits.addCost(request, actor, Math.floor(bytes / BYTES_PER_COST))

/** Pages that may be large are read and serialized one at a time for each user: one of 8 MiB takes 40 MiB of memory. */
export const largePages = createKeyedQueue()

/** One at a time, so that the pieces of several lists do not add up in one turn of the event loop. */
const queue = createLimit(1)

const BEFORE_ITEMS = '{"data":['

/**
 * Serializes a page, item by item.
 * @param serialize the serializer of the whole page
 * @returns the UTF-8 text
 */
export const serializeInPieces = (
  serialize: (page: Record<string, unknown>) => string,
  page: Page,
): Promise<Buffer> => queue(() => serializeItems(serialize, page))

async function serializeItems(
  serialize: (page: Record<string, unknown>) => string,
  page: Page,
): Promise<Buffer> {
  const empty = serialize({ ...page, data: [] })
  if (!empty.startsWith(`${BEFORE_ITEMS}]`)) throw new Error('A page does not begin with its data')
  const afterItems = empty.slice(BEFORE_ITEMS.length)
  const pieces: Buffer[] = []
  let separator = BEFORE_ITEMS
  let began = performance.now()
  for (const item of page.data) {
    const text = serialize({ ...page, data: [item] })
    pieces.push(Buffer.from(separator + text.slice(BEFORE_ITEMS.length, -afterItems.length)))
    separator = ','
    if (performance.now() - began > MAX_PIECE_MS) {
      await nextTurn()
      began = performance.now()
    }
  }
  pieces.push(Buffer.from(page.data.length === 0 ? empty : afterItems))
  return Buffer.concat(pieces)
}
