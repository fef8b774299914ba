/** `users link` and `users confirm-email`: assign the tokens of an identity provider to an account. */
import { SqlError } from '../../drizzle/client/errors.ts'
import type { Connection } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { isSubject } from '../../plugins/auth/tokens/identity-provider.ts'
import { readConfig } from '../config.ts'
import { findUser } from './accounts.ts'
import { type Command, getRequired, UsageError, type Values } from './command.ts'
import { withDatabase } from './open.ts'

const UNIQUE_VIOLATION = '23505'

const SELECT_SUBJECT = 'select subject from user_identities where user_id = $1 and issuer = $2 for update'

const UPSERT_SUBJECT = `insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)
  on conflict (user_id, issuer) do update set subject = excluded.subject, created_at = excluded.created_at`

const CONFIRM_EMAIL = 'update users set email_is_confirmed = true where id = $1'

interface Link {
  userId: string
  issuer: string
  subject: string
}

/** Links the user to the subject. @returns the subject that the user was linked to before */
async function replaceLink(tx: Connection, { userId, issuer, subject }: Link): Promise<string | undefined> {
  const [former] = await queryRows<{ subject: string }>(tx, SELECT_SUBJECT, [userId, issuer])
  try {
    await tx.run(UPSERT_SUBJECT, [userId, issuer, subject])
  } catch (error) {
    if (!(error instanceof SqlError) || error.code !== UNIQUE_VIOLATION) throw error
    throw new Error(`Subject ${subject} is already linked to another user`, { cause: error })
  }
  return former?.subject
}

async function link(values: Values): Promise<void> {
  const [issuer, subject] = [getRequired(values, 'issuer'), getRequired(values, 'subject')]
  if (!isSubject(subject)) throw new UsageError('--subject must be 1 to 255 ASCII characters')
  const config = readConfig()
  await withDatabase(config, async (database) => {
    const { id, email } = await findUser(database, values.email)
    const former = await database.transaction((tx) => replaceLink(tx, { userId: id, issuer, subject }))
    const replaced = former === undefined || former === subject ? '' : `, replacing the subject ${former}`
    console.log(`Linked ${email} to the subject ${subject} of ${issuer}${replaced}`)
  })
  if (config.AUTH_ISSUER !== undefined && config.AUTH_ISSUER !== issuer) {
    console.error(`Warning: AUTH_ISSUER is ${config.AUTH_ISSUER}; tokens of other issuers are rejected`)
  }
}

async function confirmEmail(values: Values): Promise<void> {
  await withDatabase(readConfig(), async (database) => {
    const { id, email } = await findUser(database, values.email)
    await database.run(CONFIRM_EMAIL, [id])
    console.log(`Confirmed the e-mail address ${email} of user ${id}`)
  })
}

const databaseHelp = `Writes to DATABASE_URL; running servers apply the change within 5 s. Without DATABASE_URL, writes to the
embedded database in DATA_DIR, which no running server may have open.`

const user = { email: 'The e-mail address of the user' }

export const usersLink: Command = {
  summary: 'Link a user to a subject of an identity provider',
  details: `Tokens with these 'iss' and 'sub' claims are then accepted for the user, whatever their e-mail
address. A previous subject of the same issuer is replaced. First make sure that the account belongs to that person:
its password, sessions and API keys stay valid, also those that another person knows.
${databaseHelp}`,
  arguments: user,
  options: {
    issuer: { value: 'url', help: "The 'iss' claim, exactly as in AUTH_ISSUER" },
    subject: { value: 'text', help: "The 'sub' claim" },
  },
  run: link,
}

export const usersConfirmEmail: Command = {
  summary: "Confirm a user's e-mail address",
  details: `The first token of the identity provider with this verified address then links the user. The confirmation
ends when the user changes the address. First make sure that the account belongs to the owner of the address: its
password, sessions and API keys stay valid, also those that another person knows.
${databaseHelp}`,
  arguments: user,
  options: {},
  run: confirmEmail,
}
