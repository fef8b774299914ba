/** Maps rows to resources, and builds the results of writes, with entity tags. */
import type { Actor } from '@resource-api/api/actor'
import { buildStrongTag, buildWeakTag, hash } from '@resource-api/api/preconditions'
import type { Entity, ResourceResult, Shape } from '@resource-api/api/results'
import { isObject } from '@resource-api/database/values'
import { BYTES_PER_COST, countReplyBytes } from '@resource-api/http/internal'
import type { TObject } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CollectionOptions } from '../definition/handlers.ts'
import type { Resource, RowMapper } from '../definition/resource.ts'
import { getViewTag } from '../definition/role-schemas.ts'
import { getText, type Row } from '../definition/store.ts'
import { requestsDryRun, toDryRun } from '../dry-run.ts'
import type { WriteResponse } from '../idempotency/stored-responses.ts'
import { buildResourceShape } from '../openapi/operations.ts'
import { estimateBytes } from '../sql/reply-size.ts'

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

export function createRowMapper(resource: Resource): RowMapper {
  const { name: type, schemas, computed } = resource
  const allNames = Object.keys(schemas.read.properties)
  const timestamps = getTimestamps(schemas.read)
  return (row, actor, names = allNames, relations) => {
    const values: Row = computed ? { ...row, ...computed(row, actor) } : row
    const { hidden } = resource.forRole(actor.role)
    const members: Entity['members'] = { id: row.id }
    for (const name of names) {
      if (hidden.length > 0 && hidden.includes(name)) continue
      const value = values[name]
      members[name] = timestamps.has(name) && typeof value === 'string' ? toTimestamp(value) : value
    }
    return { type, members, relations }
  }
}

/** @param shown the fields that the response has, as a version names them that has others */
export const showOnly = (entity: Entity, shown: readonly string[] | undefined): Entity =>
  shown ? { ...entity, shown } : entity

/** Of reads: a client may store a response, and validates it before each use. */
export const CACHE_CONTROL = 'private, no-cache'

/** The resource that a write has created, with a Location, or changed. */
export interface WrittenRow {
  status: 200 | 201
  row: Row
  /** Whether the write changed nothing. */
  isUnchanged?: boolean
}

/** What a write responds with: a row, the response of an action, that of code of its own, or nothing after a removal. */
export type Written =
  | WrittenRow
  | { status: 201; entity: Entity; shape: Shape }
  | { status: number; returned: unknown }
  | { status: 204 }

/** The paths of a resource below its version, as its routes have them; undefined before they are registered. */
export interface ResourcePaths {
  collection?: string
  member?: string
}

/** The result of a write in a batch, as JSON. */
export interface WrittenTexts {
  text: string
  /** The text to store, without what no column has. */
  storedText: string
}

export function createResponseBuilder(
  { resourceWriter }: FastifyInstance,
  resource: Resource,
  { publicUrl = '' }: CollectionOptions,
  paths: ResourcePaths,
) {
  const { version } = resourceWriter
  // A new release with another schema changes every tag.
  const schemaTag = buildWeakTag(resourceWriter.describe(buildResourceShape(resource, true)))
  const hashShape = (isVendor: boolean, fields?: readonly string[], includedTag = '', caller = '') =>
    hash([schemaTag, version, isVendor, fields?.join() ?? '*', includedTag, caller].join('|'))

  /** Returns the address of a new resource, by the path of the route that serves it. */
  const getLocation = (request: FastifyRequest, { row, status }: WrittenRow) => {
    if (status !== 201) return null
    const { form } = request.server.addressing.getAddress(request.raw)
    const { collection, member = `${collection}/:id` } = paths
    let location = `${publicUrl}${form}`
    // Texts and names in turns: the columns of the row.
    for (const [i, part] of member.split(/:(\w+)/).entries())
      location += i % 2 === 0 ? part : encodeURIComponent(String(row[part]))
    return location
  }

  /** Returns the row as it may be stored: without fields that no column has, such as the text of a new key. */
  const toStoredRow = (row: Row): Row => {
    const stored = Object.entries(row).filter(([name]) => name in resource.columns)
    return stored.length === Object.keys(row).length
      ? row
      : { id: row.id, revision: row.revision, ...Object.fromEntries(stored) }
  }

  /** By their shapes: those of resources, and of the responses of actions. */
  const writers = new Map<Shape, (entity: Entity) => string>()
  const wholeShape = buildResourceShape(resource, false)
  const writeText = (entity: Entity, shape = wholeShape): string => {
    const write = writers.get(shape) ?? resourceWriter.create(shape)
    writers.set(shape, write)
    return write(entity)
  }

  const { revision, updated } = resource.rowParts
  /** Others change a row of theirs and leave its time. */
  const changedAt = revision && updated

  // Most requests ask for all fields and no relations, and most resources look alike to all callers.
  const wholeShapes = { json: hashShape(false), vendor: hashShape(true) }

  return {
    /** Returns the hash of everything but the row that a representation depends on. */
    getShapeHash(request: FastifyRequest, fields?: readonly string[], included?: { tag: string }): string {
      const { vendor } = request.server.addressing.getAddress(request.raw)
      const caller = request.actor ? getViewTag(resource, request.actor) : ''
      if (!fields && !included && !caller) return vendor ? wholeShapes.vendor : wholeShapes.json
      return hashShape(vendor, fields, included?.tag, caller)
    },

    /** The member with the time of the last change; undefined if it does not change with each. */
    changedAt,

    /** Returns that time as the row has it. */
    getUpdatedAt: (row: Row): string | undefined =>
      changedAt === undefined ? undefined : getText(row, changedAt),

    /** Returns the entity tag of a row with all fields and no relations, as the response to a write has it. */
    getTag(request: FastifyRequest, row: Row): string {
      return buildStrongTag(row.revision, this.getShapeHash(request))
    },

    /** Builds the response to a write, in the transaction that may store it. */
    buildResponse(
      request: FastifyRequest,
      actor: Actor,
      written: Written,
    ): WriteResponse<ResourceResult | undefined> {
      const { status } = written
      // A stored response has the time of the first one.
      const meta = { timestamp: new Date().toISOString() }
      if (!('row' in written)) {
        const result = 'entity' in written ? { entity: written.entity, meta } : undefined
        return { status, location: null, etag: null, result }
      }
      const { row } = written
      const stored = resource.computed ? toStoredRow(row) : row
      return {
        status,
        location: getLocation(request, written),
        etag: this.getTag(request, row),
        result: { entity: resource.toEntity(row, actor), meta },
        storedResult: stored === row ? undefined : { entity: resource.toEntity(stored, actor), meta },
      }
    },

    /**
     * Builds the result of a write in a batch, as JSON: what the write alone would respond with, without the envelope.
     * @param isMinimal whether the result has no resource
     */
    buildResult(request: FastifyRequest, actor: Actor, written: Written, isMinimal: boolean): WrittenTexts {
      const { status } = written
      const isDryRun = requestsDryRun(request)
      const toText = (location: string | null, etag: string | null, body: string) =>
        `{"status":${status},"location":${JSON.stringify(location)},"etag":${JSON.stringify(etag)},"body":${body}}`
      const toBody = (entity: Entity, shape?: Shape) => (isMinimal ? 'null' : writeText(entity, shape))
      if (!('row' in written)) {
        const body = 'entity' in written ? toBody(written.entity, written.shape) : 'null'
        const text = toText(null, null, body)
        return { text, storedText: text }
      }
      const { row } = written
      const toResult = (shown: Row) =>
        toText(
          isDryRun ? null : getLocation(request, written),
          isDryRun ? null : this.getTag(request, row),
          toBody(resource.toEntity(shown, actor)),
        )
      const text = toResult(row)
      const stored = resource.computed ? toStoredRow(row) : row
      return { text, storedText: stored === row ? text : toResult(stored) }
    },
  }
}

/** Returns about how many bytes a result takes in a response. */
const estimateResultBytes = (result: unknown): number => {
  if (typeof result === 'string') return Buffer.byteLength(result)
  return isObject(result) && 'entity' in result
    ? estimateBytes(Object(result.entity).members)
    : estimateBytes(Object(result))
}

/** Sets the headers of the response to a write, and returns its result. */
export async function respondWritten(
  request: FastifyRequest,
  reply: FastifyReply,
  actor: Actor,
  written: WriteResponse,
): Promise<unknown> {
  const isDryRun = requestsDryRun(request)
  if (!isDryRun) request.server.outbox.publish()
  const { status, location, etag, result, replayed } = isDryRun ? toDryRun(written) : written
  // In lower case: Fastify would convert other names for each reply.
  reply.code(status).header('cache-control', 'no-store')
  if (status === 204) return reply.send()
  const bytes = estimateResultBytes(result)
  if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)
  if (etag !== null) reply.header('etag', etag)
  if (location !== null) reply.header('location', location)
  if (replayed) reply.header('idempotency-replayed', 'true')
  if (typeof result === 'string') reply.header('content-type', 'application/json; charset=utf-8')
  return result
}
