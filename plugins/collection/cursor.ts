/** Cursors: where a page ended, authenticated, and bound to the list that it was cut from. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { apiError } from '../errors.ts'

const TAG_BYTES = 16

/** The sort keys of the last row as the database wrote them, its id last. */
export type Position = readonly string[]

export function createCursors(key: Buffer) {
  const tagOf = (payload: Uint8Array, binding: string) =>
    createHmac('sha256', key)
      .update(`${Buffer.byteLength(binding)}:${binding}`)
      .update(payload)
      .digest()
      .subarray(0, TAG_BYTES)

  return {
    /** `binding` is what the list is: collection, parent, sort, filters, search. */
    write(position: Position, binding: string): string {
      const payload = Buffer.from(JSON.stringify(position))
      return Buffer.concat([tagOf(payload, binding), payload]).toString('base64url')
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
      if (!sound) {
        throw apiError('INVALID_CURSOR', {
          violations: [{ field: 'cursor', message: 'is not a cursor of this list', code: 'INVALID_VALUE' }],
        })
      }
      return JSON.parse(payload.toString('utf8'))
    },
  }
}

export type Cursors = ReturnType<typeof createCursors>
