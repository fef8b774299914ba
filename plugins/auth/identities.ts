/** Subjects of an identity provider to users: by their link, or by making the first one (docs/authentication.md). */
import type { FastifyBaseLogger } from 'fastify'
import type { Database, Row } from '../../drizzle/client/index.ts'

const FIND = `select u.id, u.role, u.status from user_identities i join users u on u.id = i.user_id
  where i.issuer = $1 and i.subject = $2`

// An address that its user set, or signed up with, is unproven: it could be anybody's.
// The unique constraints decide between tokens that arrive at the same time.
const LINK = `insert into user_identities (user_id, issuer, subject)
  select id, $2::text, $3::text from users where email = $1 and email_is_confirmed and status = 'active'
  on conflict do nothing`

const EXPLAIN = `select u.id, u.status, u.email_is_confirmed,
    exists (select 1 from user_identities i where i.user_id = u.id and i.issuer = $2) as is_linked
  from users u where u.email = $1`

export interface Subject {
  subject: string
  /** The verified e-mail address of the token, in lower case. */
  email: string | undefined
}

/**
 * Returns a function that finds the active user of a subject, and links the first one. It returns undefined where there
 * is none, and logs why: the reply does not say it.
 */
export function createIdentityFinder(
  database: Database,
  issuer: string,
  log: Pick<FastifyBaseLogger, 'warn'>,
): (of: Subject) => Promise<Row | undefined> {
  const refuse = (subject: string, reason: string, userId?: unknown): undefined => {
    log.warn({ issuer, subject, reason, user_id: userId }, 'a token of the identity provider was refused')
    return undefined
  }

  const findLinked = async (subject: string): Promise<Row | undefined> => {
    const [user] = await database.run(FIND, [issuer, subject])
    return user
  }

  const explain = async (subject: string, email: string): Promise<undefined> => {
    const [user] = await database.run(EXPLAIN, [email, issuer])
    if (!user) return refuse(subject, 'no user has the e-mail address of the token')
    if (user.is_linked) return refuse(subject, 'the user is linked to another subject', user.id)
    if (!user.email_is_confirmed) return refuse(subject, 'the e-mail address is not confirmed', user.id)
    return refuse(subject, 'the user is not active', user.id)
  }

  return async ({ subject, email }) => {
    let user = await findLinked(subject)
    if (!user && email === undefined) {
      return refuse(subject, 'the subject is not linked, and the token has no verified e-mail address')
    }
    if (!user && email !== undefined) {
      await database.run(LINK, [email, issuer, subject])
      user = await findLinked(subject)
      if (!user) return explain(subject, email)
    }
    return user?.status === 'active' ? user : refuse(subject, 'the user is not active', user?.id)
  }
}
