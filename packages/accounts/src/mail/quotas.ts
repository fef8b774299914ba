/** How many mails are sent to an address: within its quota. */

import { type Connection, isAnyOf, prepare } from '@resource-api/database'
import { mailQuotas, toNames } from '@resource-api/database/tables'
import { and, eq, sql } from 'drizzle-orm'

/**
 * What a mail is sent for, if only five such mails to an address count at a time. `verify` is for the present address of a
 * user and `change` for a new one, so that other users who enter an address do not keep its user from verifying it. Notices
 * count only if they go to an address that is not verified, which may be that of a stranger.
 */
export type MailPurpose = 'reset' | 'invite' | 'verify' | 'change' | 'sign-up' | 'notice'

/** Mails to one address for one purpose that count at a time. */
const MAX_MAILS = 5

/** How long a mail without a link counts. */
const MAIL_WINDOW_MS = 3_600_000

/** `[1:4]` is empty where there are no times. The fifth latest of those before decides. */
const takeFromQuota = prepare((db) => {
  const { purpose, recipient: address, times, expires_at } = mailQuotas
  const [timesName, expiresName] = [toNames(times), toNames(expires_at)]
  const duration = sql`${sql.placeholder('windowMs')} * interval '1 millisecond'`
  const fifth = sql`${times}[${sql.raw(String(MAX_MAILS))}]`
  // Citus accepts no `now()` in the condition: it is the time in `excluded`.
  return db.execute<{
    taken: number
  }>(sql`insert into ${mailQuotas} (${toNames(purpose, address, times, expires_at)})
    values (${sql.placeholder('purpose')}, ${sql.placeholder('recipient')}, array[now()], now() + ${duration})
    on conflict (${toNames(purpose, address)}) do update
      set ${timesName} = array_prepend(excluded.${timesName}[1], ${times}[1:${sql.raw(String(MAX_MAILS - 1))}]),
        ${expiresName} = excluded.${expiresName}
      where ${fifth} is null or excluded.${timesName}[1] - ${fifth} >= ${duration}
    returning 1 as taken`)
})

/**
 * Counts a mail to an address. Requests for the same address wait for each other until their transactions end.
 * @param windowMs how long the mail counts: for as long as its link can be used
 * @returns whether at most four others count; otherwise nothing may be sent, and no link may change
 */
export const takeQuota = async (
  connection: Connection,
  purpose: MailPurpose,
  address: string,
  windowMs: number = MAIL_WINDOW_MS,
): Promise<boolean> => (await takeFromQuota(connection, { purpose, recipient: address, windowMs })).length > 0

const deleteQuotas = prepare((db) => {
  const { purpose, recipient: address } = mailQuotas
  return db
    .delete(mailQuotas)
    .where(and(isAnyOf(purpose, sql.placeholder('purposes')), eq(address, sql.placeholder('address'))))
})

/** Forgets the mails to an address whose receiver has used a link in one of them, which voids the others. */
export async function clearQuotas(
  connection: Connection,
  purposes: readonly MailPurpose[],
  address: string,
): Promise<void> {
  await deleteQuotas(connection, { purposes, address })
}
