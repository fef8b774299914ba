/** Watches the rights of an export's caller, which may end while it runs: the rows that it still sends would be too few. */
import { isDeepStrictEqual } from 'node:util'
import type { FastifyRequest } from 'fastify'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Actor } from '../../access/actor.ts'
import { readActorAgain } from '../../auth/index.ts'
import { createCallerKeysReader, hasLostKeys } from '../sql/caller-keys.ts'
import type { RowSource } from './export-chunks.ts'

/** Returns what an export depends on: it ends when its credential has other rights. */
const getRights = (actor: Actor | undefined) => actor && [actor.userId, actor.role, actor.scopes]

export interface ExportRights {
  /** @throws Error if the credential has ended or has other rights */
  ensureCredential(): Promise<void>
  /**
   * To be called after rows were read: what was read before is complete.
   * @param connection from which the rows were read
   * @throws Error if the credential has ended, or related rows, such as a membership, permit fewer rows than at the beginning
   */
  ensureRows(connection: Connection): Promise<void>
}

/** Creates the function that begins to watch, before the first rows are read. */
export function createRightsWatch() {
  const readKeys = createCallerKeysReader()

  return async (request: FastifyRequest, actor: Actor, source: RowSource): Promise<ExportRights> => {
    const keys = await readKeys(source.getConnection(), source.rules, actor)

    const ensureCredential = async () => {
      const now = actor.credential === 'none' ? actor : await readActorAgain(request, actor)
      if (!isDeepStrictEqual(getRights(now), getRights(actor)))
        throw new Error('The credential has ended, or has other rights')
    }

    return {
      ensureCredential,
      async ensureRows(connection) {
        await ensureCredential()
        if (keys === undefined) return
        const now = await readKeys(connection, source.rules, actor)
        if (hasLostKeys(keys, now ?? ''))
          throw new Error('Related rows permit fewer rows than at the beginning')
      },
    }
  }
}
