/** Builds and sends the representation of rows in one version, with their entity tags. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Actor, formatActor } from '../../access/index.ts'
import { buildStrongTag, buildWeakTag, hash } from '../../http/preconditions.ts'
import type { StoredResponse } from '../../idempotency/stored-responses.ts'
import { BYTES_PER_COST, countReplyBytes } from '../../rate-limit/cost.ts'
import type { Entity } from '../../versioning/representation/types.ts'
import type { CollectionOptions, Row } from '../definition.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import type { Resource } from '../resource.ts'

/** Of reads: a client may store a response, and validates it before each use. */
export const CACHE_CONTROL = 'private, no-cache'

/** Returns the serializer of a route's responses with a status. */
export function getSerializer(reply: FastifyReply, status: 200 | 201) {
  const serialize = reply.getSerializationFunction(String(status), 'application/json')
  if (!serialize) throw new Error(`The route has no schema for ${status}`)
  return serialize
}

interface WrittenRow {
  status: 200 | 201
  row: Row
  actor: Actor
  /** The path below the version, for the header Location; null for a response without it. */
  path: string | null
}

export function createResponseBuilder(
  resource: Resource,
  { representation, publicUrl = '' }: CollectionOptions,
) {
  // A new release with another schema changes every tag.
  const schemaTag = buildWeakTag(
    JSON.stringify(representation.schemas.one(buildResourceShape(resource.published, true))),
  )

  const hashShape = (
    isVendor: boolean,
    fields: readonly string[] | undefined,
    includedTag: string,
    caller = '',
  ) =>
    hash([schemaTag, representation.version, isVendor, fields?.join() ?? '*', includedTag, caller].join('|'))

  // Most requests ask for all fields and no relations, and most resources look alike to all callers.
  const wholeShapes = { json: hashShape(false, undefined, ''), vendor: hashShape(true, undefined, '') }

  /** Returns the hash of everything but the row that a representation depends on. */
  const getShapeHash = (
    request: FastifyRequest,
    fields?: readonly string[],
    included?: { tag: string },
  ): string => {
    const { vendor } = request.server.addressing.getAddress(request.raw)
    const caller = resource.computed && request.actor ? formatActor(request.actor) : undefined
    if (!fields && !included && !caller) return vendor ? wholeShapes.vendor : wholeShapes.json
    return hashShape(vendor, fields, included?.tag ?? '', caller)
  }

  /** Returns the entity tag of a row with all fields and no relations, as the response to a write has it. */
  const getTag = (request: FastifyRequest, row: Row) => buildStrongTag(row.revision, getShapeHash(request))

  /** Returns a row without fields that have no column, such as the text of a new key; undefined if it has none. */
  const hideComputed = (row: Row): Row | undefined => {
    const names = resource.computed ? Object.keys(row).filter((name) => !(name in resource.columns)) : []
    if (names.length === 0) return undefined
    const stored: Row = { ...row }
    for (const name of names) delete stored[name]
    return stored
  }

  /** Builds the response for a written row, in the transaction that may store it. */
  const buildResponse = (
    request: FastifyRequest,
    reply: FastifyReply,
    { status, row, actor, path }: WrittenRow,
  ): StoredResponse => {
    const serialize = (each: Row) =>
      getSerializer(reply, status)(representation.one(resource.toEntity(each, actor)))
    const stored = hideComputed(row)
    const { form } = request.server.addressing.getAddress(request.raw)
    return {
      status,
      location: path === null ? null : `${publicUrl}${form}${path}`,
      etag: getTag(request, row),
      body: serialize(row),
      storedBody: stored && serialize(stored),
    }
  }

  /** Builds the response of an own operation that does not respond with the resource. */
  const buildOwnResponse = (
    reply: FastifyReply,
    type: string,
    members: Entity['members'],
  ): StoredResponse => ({
    status: 201,
    location: null,
    etag: null,
    body: getSerializer(reply, 201)(representation.one({ type, members })),
  })

  return { buildOwnResponse, getShapeHash, getTag, buildResponse }
}

/** Sends the response to a write. */
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
