/** The tables of mails, and of the links in mails with which users verify addresses, set passwords and accept invitations. */
import { sql } from 'drizzle-orm'
import { index, jsonb, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'
import { integer, moment, text } from './columns.ts'

/**
 * Mails that wait to be sent, and those that failed for good. A mail that was sent is deleted. No foreign keys: a
 * mail whose user or link no longer exists is deleted without being sent.
 */
export const mails = pgTable(
  'mails',
  {
    /** The local part of the `Message-ID`. */
    id: uuid().primaryKey(),
    /** The name of its files in `templates/` of `@resource-api/accounts`. */
    template: text().notNull(),
    recipient: text().notNull(),
    /** The user whose name is in the mail; null if it is the one who has the address when the mail is sent. */
    user_id: uuid(),
    /** The values of the template, without secrets. */
    values: jsonb().$type<Readonly<Record<string, string>>>().notNull().default({}),
    /** The link in the mail; a mail whose link is void is not sent. */
    link_id: uuid(),
    /** The token of the link, encrypted. */
    token_box: text(),
    created_at: moment().notNull().default(sql`clock_timestamp()`),
    /** The attempts that were begun. */
    attempts: integer().notNull().default(0),
    /** When the next attempt is due; while one runs, the end of its lease; null after the last one failed. */
    next_attempt_at: moment().default(sql`clock_timestamp()`),
    /** What the latest attempt failed with; null while one runs. */
    error: text(),
  },
  (t) => [
    index('mails_next_attempt_at').on(t.next_attempt_at).where(sql`${t.next_attempt_at} is not null`),
    index('mails_created_at').on(t.created_at, t.id),
  ],
)

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
    /** The e-mail address of a reset or an invitation, whether a user has it or not; the id of the user of a verification. */
    subject: text().notNull(),
    /** The address to which the link was sent. */
    email: text().notNull(),
    token_hash: text().notNull(),
    created_at: moment().notNull().defaultNow(),
    expires_at: moment().notNull(),
  },
  (t) => [index('account_links_subject').on(t.subject), index('account_links_expires_at').on(t.expires_at)],
)
