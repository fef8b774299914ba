/** Cursors: where a page ended, authenticated, and bound to the list that it was cut from. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { apiError } from '../../errors/index.ts'

const TAG_BYTES = 16

/** Pages that many read, or one reads on from, end at the same places. */
const MOST_TAGS = 2_000

/** The sort keys of the last row as the database wrote them, its id last where rows may be alike in all the others. */
export type Position = readonly string[]

export const invalidCursor = () =>
  apiError('INVALID_CURSOR', {
    violations: [{ field: 'cursor', message: 'is not a cursor of this list', code: 'INVALID_VALUE' }],
  })

export function createCursors(key: Buffer) {
  const tags = new LRUCache<string, Buffer>({ max: MOST_TAGS })
  /** Those that were written, by what they say. */
  const written = new LRUCache<string, string>({ max: MOST_TAGS })

  const tagOf = (payload: Uint8Array, binding: string): Buffer => {
    const signed = Buffer.concat([Buffer.from(`${Buffer.byteLength(binding)}:${binding}`), payload])
    // Byte for byte a character, so that no two payloads share one.
    const name = signed.toString('latin1')
    const known = tags.get(name)
    if (known) return known
    const made = createHmac('sha256', key).update(signed).digest().subarray(0, TAG_BYTES)
    tags.set(name, made)
    return made
  }

  return {
    /** `binding` is what the list is: collection, parent, sort, filters, search. */
    write(position: Position, binding: string): string {
      const text = JSON.stringify(position)
      const name = `${binding}\n${text}`
      const known = written.get(name)
      if (known !== undefined) return known
      const payload = Buffer.from(text)
      const made = Buffer.concat([tagOf(payload, binding), payload]).toString('base64url')
      written.set(name, made)
      return made
    },

    /** @throws ApiError 400 INVALID_CURSOR for one that was tampered with, or cut from another list */
    read(cursor: string, binding: string): Position {
      const bytes = Buffer.from(cursor, 'base64url')
      // The tag is over the bytes as they came, and these have one spelling: text that is no UTF-8 has several.
      const payload = bytes.subarray(TAG_BYTES)
      const sound =
        bytes.length > TAG_BYTES &&
        bytes.toString('base64url') === cursor &&
        timingSafeEqual(bytes.subarray(0, TAG_BYTES), tagOf(payload, binding))
      if (!sound) throw invalidCursor()
      return JSON.parse(payload.toString('utf8'))
    },
  }
}

export type Cursors = ReturnType<typeof createCursors>
