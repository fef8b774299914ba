/** Finds the user of an identity provider's subject, and links them at the first sign-in (docs/authentication.md). */
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'

const SELECT_LINKED = `select u.id, u.role, u.status from user_identities i join users u on u.id = i.user_id
  where i.issuer = $1 and i.subject = $2`

// Requires a confirmed address: one that a user entered may belong to another person. The unique constraints decide
// between concurrent requests.
// Without `materialized`, Citus sends its nodes a statement with a syntax error.
const INSERT_LINK = `with account as materialized (
    select id from users where email = $1 and email_is_confirmed and status = 'active'
  )
  insert into user_identities (user_id, issuer, subject) select id, $2::text, $3::text from account
  on conflict do nothing`

const SELECT_UNLINKED = `select u.id, u.status, u.email_is_confirmed,
    exists (select 1 from user_identities i where i.user_id = u.id and i.issuer = $2) as is_linked
  from users u where u.email = $1`

interface LinkedUser {
  id: string
  role: string
  status: string
}

interface UnlinkedUser {
  id: string
  status: string
  email_is_confirmed: boolean
  is_linked: boolean
}

interface Subject {
  subject: string
  /** The verified e-mail address of the token, in lower case. */
  email: string | undefined
}

/**
 * Returns a function that finds the active user of a subject, linking them if necessary. If there is none, it returns
 * undefined and logs the reason, which the reply does not contain.
 */
export function createIdentityFinder(
  database: Database,
  issuer: string,
  log: Pick<FastifyBaseLogger, 'warn'>,
): (subject: Subject) => Promise<LinkedUser | undefined> {
  const reject = (subject: string, reason: string, userId?: string): undefined => {
    log.warn({ issuer, subject, reason, user_id: userId }, 'a token of the identity provider was refused')
    return undefined
  }

  const findLinked = async (subject: string): Promise<LinkedUser | undefined> => {
    const [user] = await queryRows<LinkedUser>(database, SELECT_LINKED, [issuer, subject])
    return user
  }

  const rejectUnlinked = async (subject: string, email: string): Promise<undefined> => {
    const [user] = await queryRows<UnlinkedUser>(database, SELECT_UNLINKED, [email, issuer])
    if (!user) return reject(subject, 'no user has the e-mail address of the token')
    if (user.is_linked) return reject(subject, 'the user is linked to another subject', user.id)
    if (!user.email_is_confirmed) return reject(subject, 'the e-mail address is not confirmed', user.id)
    return reject(subject, 'the user is not active', user.id)
  }

  return async ({ subject, email }) => {
    let user = await findLinked(subject)
    if (!user) {
      if (email === undefined) {
        return reject(subject, 'the subject is not linked, and the token has no verified e-mail address')
      }
      await database.run(INSERT_LINK, [email, issuer, subject])
      user = await findLinked(subject)
      if (!user) return rejectUnlinked(subject, email)
    }
    return user.status === 'active' ? user : reject(subject, 'the user is not active', user.id)
  }
}
