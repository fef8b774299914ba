/** The name that a client gives a write, in `Idempotency-Key`: bare, or quoted as RFC 8941 quotes strings. */
import { apiError } from '../errors/index.ts'

const VISIBLE = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

const unquoted = (sent: string) => QUOTED.exec(sent)?.[1]?.replaceAll(/\\(.)/g, '$1')

/** @throws ApiError 400 */
export function readKey(sent: string): string {
  const key = sent.startsWith('"') ? unquoted(sent) : sent
  if (key !== undefined && VISIBLE.test(key)) return key
  throw apiError('INVALID_REQUEST', {
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters, bare or in double quotes',
  })
}
