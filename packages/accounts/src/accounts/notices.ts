/** Notices: mails that say that an account changed, so that its owner hears of a change that another person made. */
import type { Store } from '@resource-api/resources/internal'
import { formatMailTime } from '../mail/mail-time.ts'
import { takeQuota } from '../mail/quotas.ts'

/** The template of a notice. */
type Notice = 'password-changed' | 'email-changed' | 'api-key-created' | 'new-sign-in'

/** The user before the change. */
interface NoticeUser {
  id: string
  email: string
  email_verified_at: string | null
}

/**
 * Enqueues a notice in the transaction of its cause, with its time. An address that is not verified may be that of a
 * stranger, who gets at most five an hour, and without `ownText`.
 * @param ownText values that the user chose
 */
export async function sendNotice(
  { connection, mail, ip }: Pick<Store<object>, 'connection' | 'mail' | 'ip'>,
  template: Notice,
  { id: userId, email: recipient, email_verified_at }: NoticeUser,
  ownText: Readonly<Record<string, string>> = {},
): Promise<void> {
  if (!mail) return
  const isVerified = email_verified_at !== null
  if (!isVerified && !(await takeQuota(connection, 'notice', recipient))) return
  await mail.enqueue(connection, {
    ...{ template, recipient, userId },
    values: {
      time: formatMailTime(Date.now()),
      ...(ip !== undefined && { ip }),
      ...(isVerified && ownText),
    },
  })
}
