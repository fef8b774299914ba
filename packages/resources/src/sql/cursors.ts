/** Cursors: the position at which a page ended, authenticated and bound to its list. */
import { hash, timingSafeEqual } from 'node:crypto'
import { apiError } from '@resource-api/api/errors'

/** 132 bits in base64url. */
const TAG_LENGTH = 22

/** The sort keys of the last row as PostgreSQL's text; the id comes last unless the others are unique. */
export type Position = readonly string[]

export const invalidCursor = () =>
  apiError('INVALID_CURSOR', {
    violations: [{ field: 'cursor', message: 'is not a cursor of this list', code: 'INVALID_VALUE' }],
  })

export function createCursors(key: Buffer) {
  const secret = key.toString('base64url')

  /**
   * Not an HMAC, whose objects take 5.3 us instead of 1.7 for each cursor. SHA-512/256 is safe with the key before the
   * text: it shows half of its state, so that a known tag cannot be extended.
   */
  const sign = (text: string, binding: string): string => {
    const tag = hash('sha512-256', `${secret}:${binding.length}:${binding}${text}`, 'base64url')
    return tag.slice(0, TAG_LENGTH) + Buffer.from(text).toString('base64url')
  }

  return {
    /** @param binding identifies the list: collection, parent, sort, filters, search */
    write: (position: Position, binding: string): string => sign(JSON.stringify(position), binding),

    /** @throws ApiError 400 INVALID_CURSOR for a cursor that was changed or belongs to another list */
    read(cursor: string, binding: string): Position {
      const text = Buffer.from(cursor.slice(TAG_LENGTH), 'base64url').toString()
      // The whole text is compared, not the bytes alone, so that each position has one cursor.
      const signed = Buffer.from(sign(text, binding))
      const sent = Buffer.from(cursor)
      if (sent.length !== signed.length || !timingSafeEqual(sent, signed)) throw invalidCursor()
      return JSON.parse(text)
    },
  }
}
