/** Accounts that people can get back into: password resets, invitations and e-mail verifications, by links in mails. */
import { sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { accountLinks, mailQuotas } from '../../drizzle/account-tables.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { createPruning } from '../background/prune.ts'
import type { Resource } from '../collection/resource.ts'
import { createResets } from './resets.ts'
import { createVerifications } from './verifications.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if no mails are sent. */
    accounts: (ReturnType<typeof createResets> & ReturnType<typeof createVerifications>) | undefined
  }
}

const pruneLinks = createPruning({ table: accountLinks, column: accountLinks.expires_at, until: sql`now()` })

const pruneQuotas = createPruning({ table: mailQuotas, column: mailQuotas.expires_at, until: sql`now()` })

/** Deletes links that have expired, and quotas that are over. */
export async function pruneAccounts(database: Database, isWanted?: () => boolean): Promise<void> {
  await pruneLinks(database, isWanted)
  await pruneQuotas(database, isWanted)
}

/** @param resources of the app, one of which are the users */
async function accounts(app: FastifyInstance, { resources }: { resources: readonly Resource[] }) {
  const { database, mail } = app
  app.decorate('accounts', undefined)
  if (!mail) return
  app.accounts = {
    ...createResets(app, mail, resources),
    ...createVerifications(app, mail, resources),
  }
  app.repeat((isWanted) => pruneAccounts(database, isWanted), 'could not delete expired links of accounts')
}

export default fp(accounts, {
  name: 'accounts',
  dependencies: ['mail', 'background', 'outbox', 'passwords', 'limits', 'connection-shares'],
})
