/** Deletes expired sessions, and the addresses of sign-ins that are too old to count, once an hour. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../../drizzle/client/index.ts'
import { startBackgroundTask } from '../../lib/background-task.ts'
import { RETENTION_DAYS } from './sign-in-addresses.ts'

const BATCH_SIZE = 500
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

// Without events: the sessions ended when they expired. Safe on several replicas at the same time.
const DELETE_EXPIRED = [
  `delete from sessions where id in (
    select id from sessions where expires_at <= now() limit ${BATCH_SIZE} for update skip locked)
  returning user_id`,
  `delete from sign_in_addresses where address_hash in (
    select address_hash from sign_in_addresses where signed_in_at <= now() - interval '${RETENTION_DAYS} days'
    limit ${BATCH_SIZE} for update skip locked)
  returning user_id`,
]

/** Deletes in batches until nothing expired is left or `isWanted` returns false. */
export async function pruneSignIns(database: Database, isWanted: () => boolean): Promise<void> {
  for (const statement of DELETE_EXPIRED) {
    for (let count = BATCH_SIZE; count === BATCH_SIZE && isWanted(); ) {
      count = (await database.run(statement)).length
    }
  }
}

async function signInPruning(app: FastifyInstance) {
  let isClosing = false
  const stop = startBackgroundTask(() => pruneSignIns(app.database, () => !isClosing), {
    firstDelay: MINUTE_MS,
    interval: HOUR_MS,
    onFailure: (err) => app.log.warn({ err }, 'expired sessions and sign-in addresses could not be deleted'),
  })
  app.addHook('onClose', () => {
    isClosing = true
    return stop()
  })
}

export default fp(signInPruning, { name: 'sign-in-pruning', dependencies: ['database'] })
