/** Replies to writes: put into words in the transaction that may have to keep them, and sent as they were worded. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { StoredResponse } from '../../idempotency/record.ts'
import type { Representation } from '../../versioning/representation/types.ts'
import type { Row } from '../definition.ts'
import { actorOf, type createTelling, getSerializer } from '../shared.ts'

type Telling = ReturnType<typeof createTelling>

/** Words the reply for a row that was written. */
export function createTell(telling: Telling, representation: Representation) {
  return (
    request: FastifyRequest,
    reply: FastifyReply,
    status: 200 | 201,
    row: Row,
    location: string | null,
  ): StoredResponse => {
    return {
      status,
      location,
      etag: telling.plainTag(request, row),
      body: getSerializer(reply, status)(representation.one(telling.entity(row, actorOf(request)), {})),
    }
  }
}

/** The text for Fastify to send, with all that stands beside it. */
export function answer(
  reply: FastifyReply,
  { status, location, etag, body, replayed }: StoredResponse,
): string {
  // In small letters: others Fastify would have to make small for each reply.
  reply.code(status).header('etag', etag).header('cache-control', 'no-store')
  if (location !== null) reply.header('location', location)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.header('content-type', 'application/json; charset=utf-8')
  return body
}
