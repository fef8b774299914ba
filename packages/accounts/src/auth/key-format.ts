/** The format of an API key: 256 random bits and a checksum, which detects a mistyped key without a query. */
import { createHash, randomBytes } from 'node:crypto'

const PREFIX = 'rak_'
const CHECKSUM_LENGTH = 6
const DISPLAYED_LENGTH = PREFIX.length + 6
const PATTERN = /^rak_[A-Za-z0-9_-]{49}$/

const sha256 = (text: string) => createHash('sha256').update(text)

const computeChecksum = (text: string) =>
  sha256(`checksum of ${text}`).digest('base64url').slice(0, CHECKSUM_LENGTH)

/** Returns a new random key. */
export function makeKey(): string {
  const text = PREFIX + randomBytes(32).toString('base64url')
  return text + computeChecksum(text)
}

/** Returns whether a text has the format of a key and the right checksum. */
export const isKey = (text: string): boolean =>
  PATTERN.test(text) && computeChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)

/** Returns the hash that is stored instead of a key. */
export const hashKey = (text: string): string => sha256(text).digest('hex')

/** Returns the first characters of a key, which identify it in lists. */
export const getKeyPrefix = (text: string): string => text.slice(0, DISPLAYED_LENGTH)
