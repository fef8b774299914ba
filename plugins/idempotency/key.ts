/** Parses the `Idempotency-Key` header: a bare value, or a quoted string (RFC 8941, section 3.3.3). */
import { apiError } from '../errors/index.ts'

const VISIBLE = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

const unquote = (header: string) => QUOTED.exec(header)?.[1]?.replaceAll(/\\(.)/g, '$1')

/** @throws ApiError 400 */
export function parseKey(header: string): string {
  const key = header.startsWith('"') ? unquote(header) : header
  if (key !== undefined && VISIBLE.test(key)) return key
  throw apiError('INVALID_REQUEST', {
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters, bare or in double quotes',
  })
}
