/** Enqueues the mail of a password reset or an invitation. */
import type { Connection } from '@resource-api/database'
import type { Mailer } from '@resource-api/resources/internal'
import { takeQuota } from '../mail/quotas.ts'
import { type CreatedLink, createLink } from './links.ts'

const MINUTE_MS = 60_000
export const RESET_LIFETIME_MS = 30 * MINUTE_MS
const INVITATION_LIFETIME_MS = 7 * 24 * 60 * MINUTE_MS

const mailsByPurpose = {
  reset: { template: 'password-reset', lifetimeMs: RESET_LIFETIME_MS },
  invite: { template: 'invitation', lifetimeMs: INVITATION_LIFETIME_MS },
} as const

/**
 * Enqueues a mail with a link. It is sent if an active user has the address then; without one, the statements are the same.
 * @param email in lower case
 * @returns the link; undefined, and nothing changes, if the address has five such links
 */
export async function sendReset(
  connection: Connection,
  mail: Pick<Mailer, 'enqueue'>,
  { purpose, email }: { purpose: keyof typeof mailsByPurpose; email: string },
): Promise<CreatedLink | undefined> {
  const { template, lifetimeMs } = mailsByPurpose[purpose]
  if (!(await takeQuota(connection, purpose, email, lifetimeMs))) return undefined
  const link = await createLink(connection, { kind: purpose, subject: email, email, lifetimeMs })
  await mail.enqueue(connection, { template, recipient: email, link })
  return link
}
