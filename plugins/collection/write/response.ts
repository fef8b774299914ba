/** Sends the responses to writes. */
import type { FastifyReply } from 'fastify'
import type { StoredResponse } from '../../idempotency/keyed-write.ts'

/** Sets the headers of a response and returns its body. */
export function sendResponse(reply: FastifyReply, response: StoredResponse): string {
  const { status, location, etag, body, replayed } = response
  // In lower case: Fastify would convert other names for each reply.
  reply.code(status).header('etag', etag).header('cache-control', 'no-store')
  if (location !== null) reply.header('location', location)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.header('content-type', 'application/json; charset=utf-8')
  return body
}
