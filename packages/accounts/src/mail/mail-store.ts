/** The statements of mails: they are enqueued within the quota of their address, claimed, and deleted when they were sent. */

import { type Connection, isAnyOf, prepare, users } from '@resource-api/database'
import { accountLinks, mailQuotas, mails, toNames } from '@resource-api/database/internal'
import { createPruning } from '@resource-api/http/internal'
import { and, eq, isNotNull, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'

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

/** The values of a row of `mails`. */
export interface MailRow {
  id: string
  template: string
  recipient: string
  userId: string | null
  values: Readonly<Record<string, string>>
  linkId: string | null
  tokenBox: string | null
}

const { id, template, recipient, user_id, values, link_id, token_box } = mails

const insert = prepare((db) =>
  db.execute(sql`insert into ${mails} (${toNames(id, template, recipient, user_id, values, link_id, token_box)})
    values (${sql.placeholder('id')}::uuid, ${sql.placeholder('template')}, ${sql.placeholder('recipient')},
      ${sql.placeholder('userId')}::uuid, ${sql.placeholder('values')}::jsonb, ${sql.placeholder('linkId')}::uuid,
      ${sql.placeholder('tokenBox')})`),
)

export async function insertMail(connection: Connection, row: MailRow): Promise<void> {
  await insert(connection, { ...row, values: JSON.stringify(row.values) })
}

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

/** A mail of which this process makes the next attempt. */
export type ClaimedMail = {
  id: string
  template: string
  recipient: string
  values: Readonly<Record<string, string>>
  /** The number of the attempt, from 1. No other process has this number. */
  attempts: number
  created_at: string
  link_id: string | null
  token_box: string | null
  /** The user to whom it goes: the one of the mail, or else the active one who has the address; null without one. */
  user_name: string | null
  /** Whether the user is known to receive mail at the recipient's address: others choose any name for a mail to a stranger. */
  is_verified: boolean | null
  /** When the link ends; null if it is void. */
  link_expires_at: string | null
}

const named = alias(users, 'named')
const addressed = alias(users, 'addressed')
const seconds = (name: string) => sql`${sql.placeholder(name)} * interval '1 second'`

const claimMails = prepare((db) => {
  const { attempts, created_at, next_attempt_at } = mails
  const due = db
    .select({ id })
    .from(mails)
    .where(sql`${next_attempt_at} <= statement_timestamp()`)
    .orderBy(next_attempt_at)
    .limit(sql.placeholder('limit'))
    .for('update', { skipLocked: true })
  const claim = db
    .update(mails)
    .set({
      attempts: sql`${attempts} + 1`,
      next_attempt_at: sql`statement_timestamp() + ${seconds('lease')}`,
      error: null,
    })
    .from(sql`due`)
    .where(sql`${id} = due.id`)
    .returning({ id, template, recipient, user_id, values, link_id, token_box, attempts, created_at })
  return db.execute<ClaimedMail>(sql`with due as (${due.getSQL()}), claimed as (${claim.getSQL()})
    select claimed.id, claimed.template, claimed.recipient, claimed.values, claimed.attempts, claimed.created_at,
      claimed.link_id, claimed.token_box, coalesce(${named.name}, ${addressed.name}) as user_name,
      coalesce(${named.email_verified_at}, ${addressed.email_verified_at}) is not null
        and coalesce(${named.email}, ${addressed.email}) = claimed.recipient as is_verified,
      ${accountLinks.expires_at} as link_expires_at
    from claimed
    left join ${users} as ${named} on ${named.id} = claimed.user_id
    left join ${users} as ${addressed} on claimed.user_id is null and ${addressed.email} = claimed.recipient
      and ${addressed.status} = 'active'
    left join ${accountLinks} on ${accountLinks.id} = claimed.link_id
      and ${accountLinks.expires_at} > now()`)
})

/**
 * Claims due mails: counts an attempt of each, and keeps other processes from it until the lease ends.
 * @param limit how many at most
 * @param lease seconds after which other processes take the attempt for lost
 */
export const claim = (connection: Connection, limit: number, lease: number): Promise<ClaimedMail[]> =>
  claimMails(connection, { limit, lease })

/** Mails that are advanced at a time. */
const MAX_ADVANCED = 1_000
/** Seconds between two of them at least, and between the first and the last one at least. */
const MIN_GAP = 0.05
const MIN_SPREAD = 3

/** A mail that waits has the error of its latest attempt; while an attempt runs, it has none. */
const advance = prepare((db) => {
  const { next_attempt_at, error } = mails
  const waiting = db
    .select({ id })
    .from(mails)
    .where(sql`${next_attempt_at} > statement_timestamp() and ${error} is not null`)
    .orderBy(next_attempt_at)
    .limit(MAX_ADVANCED)
    .for('update', { skipLocked: true })
  return db.execute<{ count: number }>(sql`with waiting as (${waiting.getSQL()}), spread as (
      select id, row_number() over () * greatest(${sql.raw(String(MIN_GAP))}, ${sql.raw(String(MIN_SPREAD))}::float8 / count(*) over ())
        * interval '1 second' as delay from waiting
    ), advanced as (
      update ${mails} set ${toNames(next_attempt_at)} = least(${next_attempt_at}, statement_timestamp() + delay)
      from spread where ${mails.id} = spread.id
    ) select count(*)::int as count from waiting`)
})

/**
 * Lets the mails that wait after a failure be attempted soon, one after the other: not all in the same second.
 * @returns the seconds until all of them are due, and whether others wait
 */
export async function advanceWaiting(connection: Connection): Promise<{ spread: number; hasMore: boolean }> {
  const [{ count } = { count: 0 }] = await advance(connection)
  return { spread: Math.max(MIN_SPREAD, count * MIN_GAP), hasMore: count === MAX_ADVANCED }
}

const selectDue = prepare((db) => {
  const { next_attempt_at } = mails
  const due = sql<
    number | null
  >`(extract(epoch from min(${next_attempt_at}) - statement_timestamp()) * 1000)::float8`
  return db
    .select({ due_in_ms: due.as('due_in_ms') })
    .from(mails)
    .where(isNotNull(next_attempt_at))
})

/** Returns the milliseconds until the next attempt is due; infinity if none waits. */
export async function readDue(connection: Connection): Promise<number> {
  const [due] = await selectDue(connection)
  return due?.due_in_ms ?? Number.POSITIVE_INFINITY
}

/** The mails that wait, and those that failed for good. */
export type MailState = {
  waiting: number
  failed: number
  /** When the oldest mail that waits was enqueued, in milliseconds since the epoch; null if none waits. */
  oldest_ms: number | null
}

const selectState = prepare((db) => {
  const { created_at, next_attempt_at } = mails
  return db.execute<MailState>(sql`select count(${next_attempt_at}) as waiting,
      count(*) - count(${next_attempt_at}) as failed,
      (extract(epoch from min(${created_at}) filter (where ${next_attempt_at} is not null)) * 1000)::float8 as oldest_ms
    from ${mails}`)
})

/** Counts all mails: 200,000 take a tenth of a second. */
export async function readState(connection: Connection): Promise<MailState> {
  const [state] = await selectState(connection)
  if (!state) throw new Error('The state of the mails could not be read')
  return state
}

/** Of the attempt that was claimed: after its lease, another process may have begun the next one. */
const isClaimed = sql`${id} = ${sql.placeholder('id')}::uuid and ${mails.attempts} = ${sql.placeholder('attempts')}`

const deleteMail = prepare((db) => db.delete(mails).where(isClaimed).returning({ id }))

/** Deletes a mail that was sent, or must not be sent. @returns its id; nothing if the claim was lost */
export const removeMail = (connection: Connection, { id: mailId, attempts }: ClaimedMail) =>
  deleteMail(connection, { id: mailId, attempts })

const updateFailed = prepare((db) =>
  db
    .update(mails)
    .set({
      error: sql`${sql.placeholder('error')}`,
      next_attempt_at: sql`statement_timestamp() + ${seconds('delay')}`,
    })
    .where(isClaimed)
    .returning({ id }),
)

/**
 * Stores that an attempt failed.
 * @param delay seconds until the next one; null after the last one
 */
export const saveFailure = (
  connection: Connection,
  { id: mailId, attempts }: ClaimedMail,
  { error, delay }: { error: string; delay: number | null },
) => updateFailed(connection, { id: mailId, attempts, error, delay })

/** Ends the mails that waited when a backup was written: they may have been sent since. */
export const endRestored = (connection: Connection) =>
  connection.execute(sql`update ${mails} set ${toNames(mails.next_attempt_at)} = null,
    ${toNames(mails.error)} = 'not sent: the database was restored from a backup'
    where ${mails.next_attempt_at} is not null`)

/** Mails that failed stay for a week. One that still waits then is of a server that did not run for so long. */
const pruneOld = createPruning({
  table: mails,
  column: mails.created_at,
  until: sql`now() - interval '7 days'`,
})

export const pruneMails = (connection: Connection, isWanted?: () => boolean): Promise<number> =>
  pruneOld(connection, isWanted)
