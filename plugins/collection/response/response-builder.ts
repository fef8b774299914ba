/** Maps rows to resources, and builds and sends their representation in one version, with entity tags. */
import type { TObject } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Actor, formatActor } from '../../access/index.ts'
import { buildStrongTag, buildWeakTag, hash } from '../../http/preconditions.ts'
import type { StoredResponse } from '../../idempotency/stored-responses.ts'
import { BYTES_PER_COST, countReplyBytes } from '../../rate-limit/cost.ts'
import type { Entity } from '../../versioning/representation/types.ts'
import type { CollectionOptions, ResourceDefinition, Row } from '../definition.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import type { Resource, RowMapper } from '../resource.ts'

const MICROSECOND_LENGTH = '2026-11-21 09:30:00.123456+00'.length
const ZONE_LENGTH = '+00'.length

/** Converts PostgreSQL's text of a timestamp in UTC to RFC 3339 with milliseconds. */
export function toTimestamp(text: string): string {
  const day = text.slice(0, 10)
  // PostgreSQL omits trailing zeros of the fraction, and the point if all six are zeros. Nearly all texts have six digits.
  if (text.length === MICROSECOND_LENGTH) return `${day}T${text.slice(11, 23)}Z`
  const fraction = text.slice(20, -ZONE_LENGTH).slice(0, 3).padEnd(3, '0')
  return `${day}T${text.slice(11, 19)}.${fraction}Z`
}

/** Returns the names of the fields that are timestamps. */
export const getTimestamps = ({ properties }: TObject): ReadonlySet<string> =>
  new Set(Object.keys(properties).filter((name) => properties[name]?.format === 'date-time'))

export function createRowMapper({
  name: type,
  schemas,
  computed,
}: Pick<ResourceDefinition, 'name' | 'schemas' | 'computed'>): RowMapper {
  const allNames = Object.keys(schemas.read.properties)
  const timestamps = getTimestamps(schemas.read)
  return (row, actor, names = allNames, relations) => {
    const values: Row = computed ? { ...row, ...computed(row, actor) } : row
    const members: Entity['members'] = { id: row.id }
    for (const name of names) {
      const value = values[name]
      members[name] = typeof value === 'string' && timestamps.has(name) ? toTimestamp(value) : value
    }
    return { type, members, relations }
  }
}

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
  /** The path of the collection below the version, for the header Location; null for a response without it. */
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
  const hashShape = (isVendor: boolean, fields?: readonly string[], includedTag = '', caller = '') =>
    hash([schemaTag, representation.version, isVendor, fields?.join() ?? '*', includedTag, caller].join('|'))

  // Most requests ask for all fields and no relations, and most resources look alike to all callers.
  const wholeShapes = { json: hashShape(false), vendor: hashShape(true) }

  return {
    /** Returns the hash of everything but the row that a representation depends on. */
    getShapeHash(request: FastifyRequest, fields?: readonly string[], included?: { tag: string }): string {
      const { vendor } = request.server.addressing.getAddress(request.raw)
      const caller = resource.computed && request.actor ? formatActor(request.actor) : undefined
      if (!fields && !included && !caller) return vendor ? wholeShapes.vendor : wholeShapes.json
      return hashShape(vendor, fields, included?.tag, caller)
    },

    /** Returns the entity tag of a row with all fields and no relations, as the response to a write has it. */
    getTag(request: FastifyRequest, row: Row): string {
      return buildStrongTag(row.revision, this.getShapeHash(request))
    },

    /** Builds the response for a written row, in the transaction that may store it. */
    buildResponse(
      request: FastifyRequest,
      reply: FastifyReply,
      { status, row, actor, path }: WrittenRow,
    ): StoredResponse {
      const serialize = getSerializer(reply, status)
      const { form } = request.server.addressing.getAddress(request.raw)
      const response = {
        status,
        location: path === null ? null : `${publicUrl}${form}${path}/${row.id}`,
        etag: buildStrongTag(row.revision, this.getShapeHash(request)),
        body: serialize(representation.one(resource.toEntity(row, actor))),
      }
      if (!resource.computed) return response
      const columns = Object.entries(row).filter(([name]) => name in resource.columns)
      if (columns.length === Object.keys(row).length) return response
      // Fields without a column, such as the text of a new key, are not stored.
      const { id, revision, updated_at } = row
      const stored = { id, revision, updated_at, ...Object.fromEntries(columns) }
      return { ...response, storedBody: serialize(representation.one(resource.toEntity(stored, actor))) }
    },

    /** Builds the response of an own operation that does not respond with the resource. */
    buildOwnResponse: (reply: FastifyReply, type: string, members: Entity['members']): StoredResponse => ({
      status: 201,
      location: null,
      etag: null,
      body: getSerializer(reply, 201)(representation.one({ type, members })),
    }),
  }
}

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
