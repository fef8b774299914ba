/** Sends the response to a write. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../../access/index.ts'
import type { StoredResponse } from '../../idempotency/stored-responses.ts'
import { BYTES_PER_COST, countReplyBytes } from '../../rate-limit/cost.ts'

export async function sendWritten(
  request: FastifyRequest,
  reply: FastifyReply,
  actor: Actor,
  { status, location, etag, body, replayed }: StoredResponse,
): Promise<string> {
  request.server.outbox.publish()
  const bytes = Buffer.byteLength(body)
  if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)
  // In lower case: Fastify would convert other names for each reply.
  reply.code(status).header('cache-control', 'no-store')
  if (etag !== null) reply.header('etag', etag)
  if (location !== null) reply.header('location', location)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.header('content-type', 'application/json; charset=utf-8')
  return body
}
