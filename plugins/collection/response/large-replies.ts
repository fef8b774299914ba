/** Serializes large lists in pieces, so that no response blocks the event loop for long. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import createLimit from 'p-limit'
import { createKeyedQueue } from '../../../lib/keyed-queue.ts'
import type { Page } from '../../versioning/representation/types.ts'

/** Lists up to this estimated size are serialized in one step, by Fastify. A list of 8 MiB takes about 100 ms of CPU. */
export const MAX_BYTES_AT_ONCE = 524_288
/** After this time, serialization yields to other requests. */
const MAX_PIECE_MS = 2
/** Reads and serializes large pages one at a time for each user: a page of 8 MiB takes 40 MiB of memory. */
export const largePages = createKeyedQueue()

/** One list at a time, so that pieces of several lists do not add up in one iteration of the event loop. */
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
}
