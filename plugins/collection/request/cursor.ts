/** Cursors: the position at which a page ended, authenticated (HMAC-SHA-256, 16 bytes) and bound to its list. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { apiError } from '../../errors/index.ts'

const TAG_BYTES = 16

/** Cursors that are kept: many clients read the same pages. */
const MAX_KEPT_CURSORS = 2_000

/** The sort keys of the last row as PostgreSQL's text; the id comes last unless the others are unique. */
export type Position = readonly string[]

export const invalidCursor = () =>
  apiError('INVALID_CURSOR', {
    violations: [{ field: 'cursor', message: 'is not a cursor of this list', code: 'INVALID_VALUE' }],
  })

export function createCursors(key: Buffer) {
  const tags = new LRUCache<string, Buffer>({ max: MAX_KEPT_CURSORS })
  /** Cursors by list and position. */
  const written = new LRUCache<string, string>({ max: MAX_KEPT_CURSORS })

  const getTag = (payload: Uint8Array, binding: string): Buffer => {
    const signed = Buffer.concat([Buffer.from(`${Buffer.byteLength(binding)}:${binding}`), payload])
    // latin1 maps each byte to one character, so different payloads have different names.
    const name = signed.toString('latin1')
    const known = tags.get(name)
    if (known) return known
    const made = createHmac('sha256', key).update(signed).digest().subarray(0, TAG_BYTES)
    tags.set(name, made)
    return made
  }

  return {
    /** @param binding identifies the list: collection, parent, sort, filters, search */
    write(position: Position, binding: string): string {
      const text = JSON.stringify(position)
      const name = `${binding}\n${text}`
      const known = written.get(name)
      if (known !== undefined) return known
      const payload = Buffer.from(text)
      const made = Buffer.concat([getTag(payload, binding), payload]).toString('base64url')
      written.set(name, made)
      return made
    },

    /** @throws ApiError 400 INVALID_CURSOR for a cursor that was changed or belongs to another list */
    read(cursor: string, binding: string): Position {
      const bytes = Buffer.from(cursor, 'base64url')
      // The tag covers the bytes as sent. Their base64url must be canonical, so that each position has one cursor.
      const payload = bytes.subarray(TAG_BYTES)
      const isValid =
        bytes.length > TAG_BYTES &&
        bytes.toString('base64url') === cursor &&
        timingSafeEqual(bytes.subarray(0, TAG_BYTES), getTag(payload, binding))
      if (!isValid) throw invalidCursor()
      return JSON.parse(payload.toString('utf8'))
    },
  }
}
