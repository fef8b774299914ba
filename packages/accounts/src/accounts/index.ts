/** Accounts: passwords, mails, and the links in mails for password resets, invitations and email verifications. */

import type { Database } from '@resource-api/database'
import { accountLinks, mailQuotas } from '@resource-api/database/tables'
import type { RunConfig } from '@resource-api/http/config'
import { createPruning } from '@resource-api/work'
import { sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import passwords, { type PasswordHasher } from '../auth/passwords.ts'
import signInAddresses from '../auth/sign-in-addresses.ts'
import mail, { type MailConfig } from '../mail/index.ts'
import { tokens } from '../resources/tokens.ts'
import { resetRoutes } from './reset-routes.ts'
import { createResets } from './resets.ts'
import { verificationRoutes } from './verification-routes.ts'
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

interface AccountsOptions extends MailConfig, Pick<RunConfig, 'PASSWORD_HASHES'> {
  passwordHasher?: PasswordHasher | undefined
}

async function accounts(app: FastifyInstance, options: AccountsOptions) {
  await app.register(mail, options)
  await app.register(passwords, options)
  await app.register(signInAddresses, options)
  app.decorate('accounts', undefined)
  if (!app.mail) return
  app.accounts = { ...createResets(app, app.mail), ...createVerifications(app, app.mail) }
  app.repeat(
    (isWanted) => pruneAccounts(app.database, isWanted),
    'could not delete expired links of accounts',
  )
}

export default fp(accounts, {
  name: 'accounts',
  dependencies: ['background', 'outbox', 'limits', 'connection-shares', 'resources'],
})

/** Registers the routes of tokens, password resets and verifications in a version. */
export async function accountRoutes(app: FastifyInstance): Promise<void> {
  await app.register(tokens)
  await app.register(resetRoutes)
  await app.register(verificationRoutes)
}
