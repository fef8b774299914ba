/** The rows of mails: what their attempts need, which of them are advanced, and their end after a restore. */
import { type Connection, isAnyOf, prepare, users } from '@resource-api/database'
import { accountLinks, toNames, work } from '@resource-api/database/tables'
import { eq, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'

export const MAIL = 'mail'

/** What the row of a mail has as `payload`. A type, so that it is a record. */
export type MailPayload = {
  /** The name of its files in `templates/` of `@resource-api/accounts`. */
  template: string
  recipient: string
  /** The user whose name is in the mail; null if it is the one who has the address when the mail is sent. */
  user_id: string | null
  /** The values of the template, without secrets. */
  values: Readonly<Record<string, string>>
  /** The link in the mail; a mail whose link is void is not sent. */
  link_id: string | null
  /** The token of the link, encrypted with the id of the row. */
  token_box: string | null
}

/** What the attempt of a mail needs. */
export type MailDetails = {
  id: string
  /** As the row has it: `enqueueMail` has written it. */
  mail: MailPayload
  /** The user to whom it goes: the one of the mail, or else the active one who has the address; null without one. */
  user_name: string | null
  /** Whether the user is known to receive mail at the recipient's address: others choose any name for a mail to a stranger. */
  is_verified: boolean | null
  /** When the link ends; null if it is void. */
  link_expires_at: string | null
}

const named = alias(users, 'named')
const addressed = alias(users, 'addressed')
const field = (name: keyof MailPayload) => sql`${work.payload} ->> ${sql.raw(`'${name}'`)}`

const selectDetails = prepare((db) =>
  db.execute<MailDetails>(sql`select ${work.id}, ${work.payload} as mail,
      coalesce(${named.name}, ${addressed.name}) as user_name,
      coalesce(${named.email_verified_at}, ${addressed.email_verified_at}) is not null
        and coalesce(${named.email}, ${addressed.email}) = ${field('recipient')} as is_verified,
      ${accountLinks.expires_at} as link_expires_at
    from ${work}
    left join ${users} as ${named} on ${named.id} = (${field('user_id')})::uuid
    left join ${users} as ${addressed} on ${field('user_id')} is null and ${addressed.email} = ${field('recipient')}
      and ${addressed.status} = 'active'
    left join ${accountLinks} on ${accountLinks.id} = (${field('link_id')})::uuid and ${accountLinks.expires_at} > now()
    where ${isAnyOf(work.id, sql.placeholder('ids'))}`),
)

/** Reads what the attempts of mails need, by their ids. */
export async function loadMails(
  connection: Connection,
  rows: readonly { id: string }[],
): Promise<ReadonlyMap<string, MailDetails>> {
  const found = await selectDetails(connection, { ids: rows.map(({ id }) => id) })
  return new Map(found.map((each) => [each.id, each]))
}

/** Mails that are advanced at a time. */
const MAX_ADVANCED = 1_000
/** Seconds between two of them at least, and between the first and the last one at least. */
const MIN_GAP = 0.05
const MIN_SPREAD = 3

/** Not those whose attempt runs, and not those that have had none. */
const advance = prepare((db) => {
  const { id, next_attempt_at } = work
  const waiting = db
    .select({ id })
    .from(work)
    .where(
      sql`${work.kind} = 'mail' and ${next_attempt_at} > statement_timestamp() and ${work.claim_id} is null and ${work.attempts} > 0`,
    )
    .orderBy(next_attempt_at)
    .limit(MAX_ADVANCED)
    .for('update', { skipLocked: true })
  return db.execute<{ count: number }>(sql`with waiting as (${waiting.getSQL()}), spread as (
      select id, row_number() over () * greatest(${sql.raw(String(MIN_GAP))}, ${sql.raw(String(MIN_SPREAD))}::float8 / count(*) over ())
        * interval '1 second' as delay from waiting
    ), advanced as (
      update ${work} set ${toNames(next_attempt_at)} = least(${next_attempt_at}, statement_timestamp() + delay)
      from spread where ${work.id} = spread.id
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

/** Ends the mails that waited when a backup was written: they may have been sent since. */
export const endRestored = async (connection: Connection): Promise<void> => {
  await connection
    .update(work)
    .set({
      status: 'failed',
      next_attempt_at: null,
      error: 'not sent: the database was restored from a backup',
    })
    .where(sql`${eq(work.kind, MAIL)} and ${work.status} = 'pending'`)
}
