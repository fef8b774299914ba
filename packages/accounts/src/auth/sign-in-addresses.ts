/**
 * Records the IP addresses from which an account signed in, so that failed sign-ins from other addresses cannot lock its
 * owner out (`attempts.ts` of `@resource-api/http`), and the owner hears of a sign-in from a new one. Deletes old
 * addresses and expired sessions.
 */
import { createHmac } from 'node:crypto'
import { type Connection, prepare, users } from '@resource-api/database'
import { sessions, signInAddresses, toNames } from '@resource-api/database/tables'
import { deriveKey, type RunConfig } from '@resource-api/http/config'
import { createPruning } from '@resource-api/work'
import { and, desc, eq, gt, notInArray, sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { sendNotice } from '../accounts/notices.ts'

const RETENTION = sql.raw(`interval '30 days'`)
const RENEWAL = sql.raw(`interval '1 day'`)
const MAX_ADDRESSES_PER_USER = 100

// The email address is compared too, since another user may have it after a change.
const findKnown = prepare((db) =>
  db
    .select({ user_id: signInAddresses.user_id })
    .from(signInAddresses)
    .innerJoin(users, eq(users.id, signInAddresses.user_id))
    .where(
      and(
        eq(signInAddresses.address_hash, sql.placeholder('hash')),
        eq(users.email, sql.placeholder('account')),
        gt(signInAddresses.signed_in_at, sql`now() - ${RETENTION}`),
      ),
    ),
)

const { address_hash, user_id, signed_in_at } = signInAddresses
const [hashName, userName, timeName] = [toNames(address_hash), toNames(user_id), toNames(signed_in_at)]

// For Citus: without `materialized` it sends its nodes a statement with a syntax error, and `do update` may call only
// immutable functions, so not `now()`, which is the default of the inserted `signed_in_at`.
const upsert = prepare((db) =>
  db.execute<{ user_id: string }>(sql`with account as materialized (
      select ${users.id} from ${users} where ${users.id} = ${sql.placeholder('userId')})
    insert into ${signInAddresses} (${hashName}, ${userName})
      select ${sql.placeholder('hash')}::text, id from account
    on conflict (${hashName}) do update set ${userName} = excluded.${userName}, ${timeName} = excluded.${timeName}
      where ${signInAddresses.user_id} <> excluded.${userName}
        or excluded.${timeName} - ${signInAddresses.signed_in_at} > ${RENEWAL}
    returning ${userName}`),
)

/** A row for each address of the user; one with nulls if there is none. */
const listOfUser = prepare((db) =>
  db
    .select({
      address_hash,
      is_recent: sql<boolean | null>`${signed_in_at} > now() - ${RETENTION}`.as('is_recent'),
      email_verified_at: users.email_verified_at,
      // Earlier sign-ins of such a user may have been deleted.
      is_old: sql<boolean>`${users.created_at} <= now() - ${RETENTION}`.as('is_old'),
    })
    .from(users)
    .leftJoin(signInAddresses, eq(user_id, users.id))
    .where(eq(users.id, sql.placeholder('userId'))),
)

const deleteOldest = prepare((db) =>
  db.delete(signInAddresses).where(
    and(
      eq(signInAddresses.user_id, sql.placeholder('userId')),
      notInArray(
        signInAddresses.address_hash,
        db
          .select({ address_hash: signInAddresses.address_hash })
          .from(signInAddresses)
          .where(eq(signInAddresses.user_id, sql.placeholder('userId')))
          .orderBy(desc(signInAddresses.signed_in_at), signInAddresses.address_hash)
          .limit(MAX_ADDRESSES_PER_USER),
      ),
    ),
  ),
)

// Without events: the sessions ended when they expired.
const pruneSessions = createPruning({ table: sessions, column: sessions.expires_at, until: sql`now()` })
const pruneAddresses = createPruning({
  table: signInAddresses,
  column: signed_in_at,
  until: sql`now() - ${RETENTION}`,
})

export async function pruneSignIns(connection: Connection, isWanted?: () => boolean): Promise<void> {
  await pruneSessions(connection, isWanted)
  await pruneAddresses(connection, isWanted)
}

/** @param secret key of the HMAC; the same on every replica */
function createSignInAddresses({ database, mail }: FastifyInstance, secret: Buffer) {
  /** An account, by its email address, and the IP address of a request for it. */
  type SignInAddress = { account: string; address: string }

  // The IP address itself is not stored, and its hash differs for each account.
  const hash = ({ account, address }: SignInAddress): string =>
    createHmac('sha256', secret).update(`${account}\n${address}`).digest('base64url')

  return {
    /** Returns whether the account signed in from the address within 30 days. An unknown account takes the same query. */
    async isKnown(from: SignInAddress): Promise<boolean> {
      return (await findKnown(database, { hash: hash(from), account: from.account })).length > 0
    },

    /**
     * Records a sign-in. A known address is updated at most once a day. Of one that is new within 30 days, the user gets a
     * mail, except for that of the first sign-in. For a user of 30 days without a known sign-in, it counts as another one:
     * an account that was not used for long is worth a mail.
     * @param ip the IP address for the mail
     */
    async record(userId: string, from: SignInAddress, ip: string): Promise<void> {
      const own = hash(from)
      const seen = mail ? await listOfUser(database, { userId }) : []
      const user = seen.find((each) => each.is_old || each.address_hash !== null)
      const isNew = user && !seen.some((each) => each.address_hash === own && each.is_recent)
      const write = async (connection: Connection) => {
        const written = await upsert(connection, { hash: own, userId })
        if (written.length === 0) return
        await deleteOldest(connection, { userId })
        if (isNew) {
          const { email_verified_at } = user
          const account = { id: userId, email: from.account, email_verified_at }
          await sendNotice({ connection, mail, ip }, 'new-sign-in', account)
        }
      }
      await (isNew ? database.transaction(write) : write(database))
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    signInAddresses: ReturnType<typeof createSignInAddresses>
  }
}

export default fp(
  async (app: FastifyInstance, { APP_SECRET }: Pick<RunConfig, 'APP_SECRET'>) => {
    const key = deriveKey(APP_SECRET, 'sign-in addresses')
    app.decorate('signInAddresses', createSignInAddresses(app, key))
    app.repeat(
      (isWanted) => pruneSignIns(app.database, isWanted),
      'expired sessions and sign-in addresses could not be deleted',
    )
  },
  { name: 'sign-in-addresses', dependencies: ['background', 'database', 'mail'] },
)
