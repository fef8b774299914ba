/**
 * Replies to writes that changed nothing. Each holds the whole resource, which may be a thousand times as long as the
 * request, so that equal ones are stored once. They differ in `meta.timestamp` alone.
 */
import { createHash } from 'node:crypto'

const BEFORE_TIMESTAMP = '"timestamp":"'
const TIMESTAMP_LENGTH = '2026-11-21T09:30:00.000Z'.length

/** Returns where the reply's time stands: `meta` is the last field of a reply. */
const findTimestamp = (body: string) => body.lastIndexOf(BEFORE_TIMESTAMP) + BEFORE_TIMESTAMP.length

/** Takes the time out of a reply's body. */
export function splitTimestamp(body: string) {
  const start = findTimestamp(body)
  const content = body.slice(0, start) + body.slice(start + TIMESTAMP_LENGTH)
  return {
    id: createHash('sha256').update(content).digest('base64url'),
    content,
    timestamp: body.slice(start, start + TIMESTAMP_LENGTH),
  }
}

/** Puts a time back into a body. */
export function joinTimestamp(content: string, timestamp: string): string {
  const start = findTimestamp(content)
  return content.slice(0, start) + timestamp + content.slice(start)
}
