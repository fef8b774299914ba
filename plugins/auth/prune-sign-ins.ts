/** Deletes expired sessions, and the addresses of sign-ins that are too old to count. */
import { sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../../drizzle/client/index.ts'
import { sessions, signInAddresses } from '../../drizzle/credential-tables.ts'
import { createPruning } from '../background/prune.ts'
import { RETENTION_DAYS } from './sign-in-addresses.ts'

// Without events: the sessions ended when they expired.
const pruneSessions = createPruning({ table: sessions, column: sessions.expires_at, until: sql`now()` })
const pruneAddresses = createPruning({
  table: signInAddresses,
  column: signInAddresses.signed_in_at,
  until: sql`now() - interval '${sql.raw(String(RETENTION_DAYS))} days'`,
})

export async function pruneSignIns(connection: Connection, isWanted?: () => boolean): Promise<void> {
  await pruneSessions(connection, isWanted)
  await pruneAddresses(connection, isWanted)
}

async function signInPruning(app: FastifyInstance) {
  app.repeat(
    (isWanted) => pruneSignIns(app.database, isWanted),
    'expired sessions and sign-in addresses could not be deleted',
  )
}

export default fp(signInPruning, { name: 'sign-in-pruning', dependencies: ['background', 'database'] })
