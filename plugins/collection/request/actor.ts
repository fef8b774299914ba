/** The caller of a request to a collection. */
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../../access/index.ts'
import { apiError } from '../../errors/index.ts'

/** @throws ApiError 401 */
export function getActor({ actor }: FastifyRequest): Actor {
  if (!actor) throw apiError('UNAUTHORIZED')
  return actor
}
