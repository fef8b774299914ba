/** What reads and writes of a collection have in common: who calls, whose ids the path names, how a row is told. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { validate as isUuid } from 'uuid'
import type { Connection } from '../../drizzle/client/types.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'
import { apiError } from '../errors/index.ts'
import type { Entity, Representation } from '../versioning/representation/types.ts'
import type { AnyCard, Row } from './definition.ts'
import { shapeOf } from './openapi/operations.ts'
import { type Included, membersOf, selectOf } from './read/include.ts'
import { BYTES_PER_COST } from './read/large-replies.ts'
import { strongTag, weakTag } from './request/preconditions.ts'
import type { Sent } from './request/query-validation.ts'

/** What the kernel is told by the app. */
export interface CollectionOptions {
  representation: Representation
  /** Signs cursors; the same on every replica. */
  cursorKey: Buffer
  publicUrl: string | undefined
  requireIfMatch: boolean
  /** Whether what is read may be as old as a replica is. */
  mayLag: boolean
}

/** The ids of a path, `me` being the caller's. */
export interface Place {
  id: string
  /** Undefined where the collection stands under no other. */
  parent: string | undefined
}

type Params = Readonly<Record<string, string | undefined>>

export const actorOf = ({ actor }: FastifyRequest): Actor => {
  if (!actor) throw apiError('UNAUTHORIZED')
  return actor
}

/** Adds the size of a large reply to what its request counts as in the user's rate limit. */
export const countBytes = (request: FastifyRequest, actor: Actor, bytes: number): MaybePromise<void> =>
  bytes < BYTES_PER_COST || actor.credential === 'none'
    ? undefined
    : request.server.limits.addCost(request, actor, Math.floor(bytes / BYTES_PER_COST))

/** Returns the serializer of a route's replies with a status. */
export function getSerializer(reply: FastifyReply, status: 200 | 201) {
  const serialize = reply.getSerializationFunction(String(status), 'application/json')
  if (!serialize) throw new Error(`The route has no schema for ${status}`)
  return serialize
}

export const queryOf = (request: FastifyRequest) => request.query as Sent

/** Reads the ids of a collection's paths. */
export function createPlaces(card: AnyCard) {
  const { parent } = card
  const read = (sent: string | undefined, me: boolean | undefined, actor: Actor) =>
    me && sent === 'me' ? actor.userId : (sent ?? '').toLowerCase()

  return {
    of(request: FastifyRequest, actor: Actor): Place {
      const params = request.params as Params
      return {
        id: read(params.id, card.me, actor),
        parent: parent && read(params[parent.member], parent.to().me, actor),
      }
    },
    /** The path of a collection, below the version. */
    path: (place: string | undefined) =>
      parent ? `/${parent.to().name}/${place}/${card.name}` : `/${card.name}`,
    /**
     * What is no UUID names no row. Asked where the row would be, after all that the request says of itself.
     * @throws ApiError 404
     */
    ensureIds(...ids: readonly (string | undefined)[]) {
      if (ids.some((id) => id !== undefined && !isUuid(id))) throw apiError('RESOURCE_NOT_FOUND')
    },
    /** @throws ApiError 404 for a parent that does not exist */
    async ensureParent(connection: Connection, id: string | undefined) {
      if (id === undefined || !parent) return
      const found = await selectOf(parent.to()).one(connection, id, { fields: ['id'] })
      if (!found) throw apiError('RESOURCE_NOT_FOUND')
    },
  }
}

const NOTHING_INCLUDED: Included = { of: () => undefined, meta: {}, tag: '', bytes: 0 }

/** How a card's rows become resources and tags in one version. */
export function createTelling(card: AnyCard, representation: Representation) {
  // What shapes a representation beside the row: a change of the schema makes every tag new.
  const schemaTag = weakTag(JSON.stringify(representation.schemas.one(shapeOf(card, true))))

  const shape = (
    request: FastifyRequest,
    fields: readonly string[] | undefined,
    included: Included = NOTHING_INCLUDED,
  ) => {
    const { vendor } = request.server.addressing.getAddress(request.raw)
    return [schemaTag, representation.version, vendor, fields?.join() ?? '*', included.tag].join('|')
  }

  /** What nearly all ask for, whole and with nothing included, for each media type. */
  const plain = new Map<boolean, string>()
  const plainShape = (request: FastifyRequest) => {
    const { vendor } = request.server.addressing.getAddress(request.raw)
    const known = plain.get(vendor) ?? shape(request, undefined)
    plain.set(vendor, known)
    return known
  }

  return {
    shape: (request: FastifyRequest, fields: readonly string[] | undefined, included: Included) =>
      fields === undefined && included.tag === '' ? plainShape(request) : shape(request, fields, included),
    /** The tag of a row as a write is answered: whole, with nothing included. */
    plainTag: (request: FastifyRequest, row: Row) => strongTag(row.revision, plainShape(request)),
    entity(row: Row, actor: Actor, fields?: readonly string[], included?: Included): Entity {
      const members = membersOf(card, row, actor, fields)
      const relations = included?.of(row)
      return relations ? { type: card.name, members, relations } : { type: card.name, members }
    },
  }
}
