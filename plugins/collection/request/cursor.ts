/** Cursors: the position at which a page ended, authenticated (HMAC-SHA-256, 16 bytes) and bound to its list. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { apiError } from '../../errors/index.ts'

const TAG_BYTES = 16

/** The sort keys of the last row as PostgreSQL's text; the id comes last unless the others are unique. */
export type Position = readonly string[]

export const invalidCursor = () =>
  apiError('INVALID_CURSOR', {
    violations: [{ field: 'cursor', message: 'is not a cursor of this list', code: 'INVALID_VALUE' }],
  })

export function createCursors(key: Buffer) {
  const sign = (payload: Uint8Array, binding: string): Buffer =>
    createHmac('sha256', key)
      .update(`${Buffer.byteLength(binding)}:${binding}`)
      .update(payload)
      .digest()
      .subarray(0, TAG_BYTES)

  return {
    /** @param binding identifies the list: collection, parent, sort, filters, search */
    write(position: Position, binding: string): string {
      const payload = Buffer.from(JSON.stringify(position))
      return Buffer.concat([sign(payload, binding), payload]).toString('base64url')
    },

    /** @throws ApiError 400 INVALID_CURSOR for a cursor that was changed or belongs to another list */
    read(cursor: string, binding: string): Position {
      const bytes = Buffer.from(cursor, 'base64url')
      // The tag covers the bytes as sent. Their base64url must be canonical, so that each position has one cursor.
      const payload = bytes.subarray(TAG_BYTES)
      const isValid =
        bytes.length > TAG_BYTES &&
        bytes.toString('base64url') === cursor &&
        timingSafeEqual(bytes.subarray(0, TAG_BYTES), sign(payload, binding))
      if (!isValid) throw invalidCursor()
      return JSON.parse(payload.toString('utf8'))
    },
  }
}
