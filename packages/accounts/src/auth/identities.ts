/** Finds the user of an identity provider's subject, and links them at the first sign-in (docs/callers/authentication.md). */
import { type Database, prepare, users } from '@resource-api/database'
import { toNames, userIdentities } from '@resource-api/database/tables'
import { and, eq, sql } from 'drizzle-orm'
import type { FastifyBaseLogger } from 'fastify'

const findLinkedUser = prepare((db) =>
  db
    .select({ id: users.id, role: users.role, status: users.status })
    .from(userIdentities)
    .innerJoin(users, eq(users.id, userIdentities.user_id))
    .where(
      and(
        eq(userIdentities.issuer, sql.placeholder('issuer')),
        eq(userIdentities.subject, sql.placeholder('subject')),
      ),
    ),
)

// Requires a verified address: one that a user entered may belong to another person. The unique constraints decide
// between concurrent requests.
// Without `materialized`, Citus sends its nodes a statement with a syntax error.
const insertLink = prepare((db) =>
  db.execute(sql`with account as materialized (
      select ${users.id} from ${users}
      where ${users.email} = ${sql.placeholder('email')} and ${users.email_verified_at} is not null and ${users.status} = 'active'
    )
    insert into ${userIdentities} (${toNames(userIdentities.user_id, userIdentities.issuer, userIdentities.subject)})
      select id, ${sql.placeholder('issuer')}::text, ${sql.placeholder('subject')}::text from account
    on conflict do nothing`),
)

const findUnlinkedUser = prepare((db) =>
  db
    .select({
      id: users.id,
      email_verified_at: users.email_verified_at,
      subject: userIdentities.subject,
    })
    .from(users)
    .leftJoin(
      userIdentities,
      and(eq(userIdentities.user_id, users.id), eq(userIdentities.issuer, sql.placeholder('issuer'))),
    )
    .where(eq(users.email, sql.placeholder('email'))),
)

/** Reads the providers with which a user can sign in. */
export const listProviders = prepare((db) =>
  db
    .select({ issuer: userIdentities.issuer })
    .from(userIdentities)
    .where(eq(userIdentities.user_id, sql.placeholder('user_id'))),
)

type LinkedUser = Awaited<ReturnType<typeof findLinkedUser>>[number]

interface Subject {
  subject: string
  /** The verified email address of the token, in lower case. */
  email: string | undefined
}

/** Returns a function that finds or links the active user of a subject. If there is none, it logs the reason. */
export function createIdentityFinder(
  database: Database,
  issuer: string,
  log: Pick<FastifyBaseLogger, 'warn'>,
): (subject: Subject) => Promise<LinkedUser | undefined> {
  const reject = (subject: string, reason: string, userId?: string): undefined => {
    log.warn({ issuer, subject, reason, user_id: userId }, 'a token of the identity provider was refused')
    return undefined
  }

  const rejectUnlinked = async (subject: string, email: string): Promise<undefined> => {
    const [user] = await findUnlinkedUser(database, { email, issuer })
    if (!user) return reject(subject, 'no user has the email address of the token')
    if (user.subject) return reject(subject, 'the user is linked to another subject', user.id)
    if (!user.email_verified_at) return reject(subject, 'the email address is not verified', user.id)
    return reject(subject, 'the user is not active', user.id)
  }

  return async ({ subject, email }) => {
    let [user] = await findLinkedUser(database, { issuer, subject })
    if (!user) {
      if (email === undefined) {
        return reject(subject, 'the subject is not linked, and the token has no verified email address')
      }
      await insertLink(database, { email, issuer, subject })
      ;[user] = await findLinkedUser(database, { issuer, subject })
      if (!user) return rejectUnlinked(subject, email)
    }
    return user.status === 'active' ? user : reject(subject, 'the user is not active', user.id)
  }
}
