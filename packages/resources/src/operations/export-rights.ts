/** Watches the rights of an export's caller, which may end while it runs: the rows that it still sends would be too few. */
import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '@resource-api/api/actor'
import type { Connection } from '@resource-api/database'
import type { FastifyRequest } from 'fastify'
import { createCallerKeysReader, hasLostKeys } from '../sql/caller-keys.ts'
import type { RowSource } from './export-pages.ts'

const getRights = (actor: Actor | undefined) => actor && [actor.userId, actor.role, actor.scopes]

/**
 * Creates the function that begins to watch, before the first rows are read. It resolves to one to be called after rows were
 * read, with their connection: what was read before is complete. That one throws if the credential has ended or has other
 * rights, or if related rows, such as a membership, permit fewer rows than at the beginning.
 */
export function createRightsWatch() {
  const readKeys = createCallerKeysReader()

  return async (request: FastifyRequest, actor: Actor, { rules, getConnection }: RowSource) => {
    const keys = await readKeys(getConnection(), rules, actor)

    return async (connection: Connection): Promise<void> => {
      const now = await request.server.callers.readAgain(request, actor)
      if (!isDeepStrictEqual(getRights(now), getRights(actor)))
        throw new Error('The credential has ended, or has other rights')
      if (keys !== undefined && hasLostKeys(keys, (await readKeys(connection, rules, actor)) ?? ''))
        throw new Error('Related rows permit fewer rows than at the beginning')
    }
  }
}
