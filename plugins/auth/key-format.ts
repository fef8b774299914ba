/** The text of an API key: random, with a checksum that tells a mistyped one without a query. */
import { createHash, randomBytes } from 'node:crypto'

const PREFIX = 'rak_'
const CHECKSUM = 6
const FORM = /^rak_[A-Za-z0-9_-]{49}$/

const sha256 = (text: string) => createHash('sha256').update(text)

const checksum = (text: string) => sha256(`checksum of ${text}`).digest('base64url').slice(0, CHECKSUM)

/** A new key: 256 random bits and their checksum. */
export function makeKey(): string {
  const text = PREFIX + randomBytes(32).toString('base64url')
  return text + checksum(text)
}

/** Whether a text can be a key at all. */
export const isKey = (text: string): boolean =>
  FORM.test(text) && checksum(text.slice(0, -CHECKSUM)) === text.slice(-CHECKSUM)

/** What is stored of a key. */
export const hashKey = (text: string): string => sha256(text).digest('hex')

/** What is shown of a key, to tell it from others. */
export const prefixOf = (text: string): string => text.slice(0, PREFIX.length + 6)
