/** Builds the responses to writes, in the transaction that may store them, and sends them unchanged. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { StoredResponse } from '../../idempotency/keyed-write.ts'
import type { Representation } from '../../versioning/representation/types.ts'
import type { Row } from '../definition.ts'
import { getActor } from '../request/actor.ts'
import { getSerializer, type ResponseBuilder } from '../response-builder.ts'

/** Returns a function that builds the response for a written row. */
export function createBuildResponse(builder: ResponseBuilder, representation: Representation) {
  return (
    request: FastifyRequest,
    reply: FastifyReply,
    status: 200 | 201,
    row: Row,
    location: string | null,
  ): StoredResponse => ({
    status,
    location,
    etag: builder.getTag(request, row),
    body: getSerializer(reply, status)(representation.one(builder.toEntity(row, getActor(request)), {})),
  })
}

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
