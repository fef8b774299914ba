/** Reads the `Idempotency-Key` header: a bare value, or a quoted string (RFC 8941, section 3.3.3). */
import { createHash, createHmac } from 'node:crypto'
import { configure } from 'safe-stable-stringify'
import { apiError } from '../errors/index.ts'

const VISIBLE = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/** Serializes equal JSON to equal text, whatever the order of the fields. */
const stringifyCanonically = configure({ deterministic: true, bigint: false })

const unquote = (header: string) => QUOTED.exec(header)?.[1]?.replaceAll(/\\(.)/g, '$1')

/** @throws ApiError 400 */
export function parseKey(header: string): string {
  const key = header.startsWith('"') ? unquote(header) : header
  if (key !== undefined && VISIBLE.test(key)) return key
  throw apiError('INVALID_REQUEST', {
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters, bare or in double quotes',
  })
}

/** The key of one write. */
export interface IdempotencyKey {
  userId: string
  /** The hash of user, method, path and key. */
  id: string
  lockId: string
  /** Computes the hash of the body, when the body is validated and its schema bounds its size. */
  getBodyHash(): string
}

/**
 * @param path the canonical one, with its version
 * @param secret key of the HMAC of the body, which may contain a password: a plain hash could be brute-forced
 */
export function createKey(
  { userId, method, path, key }: { userId: string; method: string; path: string; key: string },
  body: unknown,
  secret: Buffer,
): IdempotencyKey {
  const digest = createHash('sha256')
    .update(JSON.stringify([userId, method, path, key]))
    .digest()
  return {
    userId,
    id: digest.toString('base64url'),
    lockId: digest.readBigInt64BE().toString(),
    getBodyHash: () =>
      createHmac('sha256', secret)
        .update(stringifyCanonically(body) ?? '')
        .digest('base64url'),
  }
}
