/** The tables of the links in mails with which users verify addresses, set passwords and accept invitations, and of quotas. */
import { index, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'
import { moment, text } from './columns.ts'

/** The times of the latest mails to an address for a purpose, newest first: at most five count at a time. */
export const mailQuotas = pgTable(
  'mail_quotas',
  {
    purpose: text().notNull(),
    recipient: text().notNull(),
    times: moment().array().notNull(),
    /** When the latest mail no longer counts. */
    expires_at: moment().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.purpose, t.recipient] }),
    index('mail_quotas_expires_at').on(t.expires_at),
  ],
)

/**
 * Password resets, invitations and verifications of addresses. The row of a link that was used or is void is deleted. Of
 * the token, only the SHA-256 hash is stored.
 */
export const accountLinks = pgTable(
  'account_links',
  {
    id: uuid().primaryKey(),
    kind: text().$type<'reset' | 'invite' | 'verify'>().notNull(),
    /** The email address of a reset or an invitation, whether a user has it or not; the id of the user of a verification. */
    subject: text().notNull(),
    /** The address to which the link was sent. */
    email: text().notNull(),
    token_hash: text().notNull(),
    created_at: moment().notNull().defaultNow(),
    expires_at: moment().notNull(),
  },
  (t) => [index('account_links_subject').on(t.subject), index('account_links_expires_at').on(t.expires_at)],
)
