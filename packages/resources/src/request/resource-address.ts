/** The caller of a request and the address of its resource: the ids in the path. */
import { CHALLENGES, refuseCredential } from '@resource-api/api/access'
import type { Actor } from '@resource-api/api/actor'
import { toWords } from '@resource-api/api/documents'
import { ApiError, apiError } from '@resource-api/api/errors'
import type { Connection } from '@resource-api/database'
import type { RowId } from '@resource-api/database/key'
import type { FastifyRequest } from 'fastify'
import type { Resource } from '../definition/resource.ts'

export interface ResourceAddress {
  /** The caller, for whose id `me` stands. */
  actor: Actor
  id: RowId
  /** The id of the parent; undefined if the resource has no parent. */
  parent: RowId | undefined
}

/** Returns the error for an id that no row has. */
export const createNotFound = ({ singular }: Pick<Resource, 'singular'>, id: RowId) =>
  apiError('RESOURCE_NOT_FOUND', { message: `There is no ${toWords(singular)} with the id ${id}` })

/** The error for a row that does not exist, unlike one that HIDE_FORBIDDEN hides. */
export class MissingRowError extends ApiError {
  constructor({ code, message }: ApiError) {
    super(code, { message })
  }
}

/**
 * Reads the caller and the ids of the path.
 * @throws ApiError 401
 */
export function readAddress(
  { parent }: Resource,
  { actor, params }: Pick<FastifyRequest, 'actor' | 'params'>,
): ResourceAddress {
  if (!actor) throw apiError('UNAUTHORIZED')
  // Fastify has read them by the schema of the path, which accepts `me` only where it stands for the caller.
  const { id = '', ...others } = params as Record<string, RowId>
  const sentParent = parent && others[parent.member]
  const isAnonymous = actor.credential === 'none'
  if (isAnonymous && (id === 'me' || sentParent === 'me')) throw refuseCredential('none', CHALLENGES.none)
  return {
    actor,
    id: id === 'me' ? actor.userId : id,
    parent: sentParent === 'me' ? actor.userId : sentParent,
  }
}

/** @throws ApiError 404 if the parent does not exist */
export async function ensureParent(connection: Connection, { parent }: Resource, id: RowId | undefined) {
  if (id === undefined || !parent) return
  const found = await parent.to.select.one(connection, id, { fields: ['id'] })
  if (!found) throw createNotFound(parent.to, id)
}
