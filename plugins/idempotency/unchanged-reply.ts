/**
 * Splits replies to writes that changed nothing, so that equal ones are stored once: each has the whole resource, which
 * may be a thousand times as long as the request. They differ only in `meta.timestamp`.
 */
import { createHash } from 'node:crypto'

const TIMESTAMP_PREFIX = '"timestamp":"'
const TIMESTAMP_LENGTH = '2026-11-21T09:30:00.000Z'.length

/** Returns the index of the timestamp. It is the last one in the text, since `meta` is the last field of a reply. */
const findTimestamp = (body: string) => body.lastIndexOf(TIMESTAMP_PREFIX) + TIMESTAMP_PREFIX.length

/** Separates the timestamp from a reply's body. */
export function splitTimestamp(body: string) {
  const start = findTimestamp(body)
  const content = body.slice(0, start) + body.slice(start + TIMESTAMP_LENGTH)
  return {
    id: createHash('sha256').update(content).digest('base64url'),
    content,
    timestamp: body.slice(start, start + TIMESTAMP_LENGTH),
  }
}

/** Inserts the timestamp that `splitTimestamp` removed. */
export function joinTimestamp(content: string, timestamp: string): string {
  const start = findTimestamp(content)
  return content.slice(0, start) + timestamp + content.slice(start)
}
