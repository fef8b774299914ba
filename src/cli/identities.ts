/** `users link` and `users confirm-email`: which account the tokens of an identity provider are for. */

import { SqlError } from '../../drizzle/client/errors.ts'
import type { Connection } from '../../drizzle/client/index.ts'
import { isSubject } from '../../plugins/auth/tokens/identity-provider.ts'
import { readConfig } from '../config.ts'
import { findUser } from './accounts.ts'
import { type Command, required, UsageError, type Values } from './command.ts'
import { withDatabase } from './open.ts'

const UNIQUE_VIOLATION = '23505'

const FIND = 'select subject from user_identities where user_id = $1 and issuer = $2 for update'

const LINK = `insert into user_identities (user_id, issuer, subject) values ($1, $2, $3)
  on conflict (user_id, issuer) do update set subject = excluded.subject, created_at = now()`

const CONFIRM = 'update users set email_is_confirmed = true where id = $1'

interface Link {
  userId: string
  issuer: string
  subject: string
}

/** Returns the subject that the user was linked to before. */
async function replaceLink(tx: Connection, { userId, issuer, subject }: Link): Promise<unknown> {
  const [former] = await tx.run(FIND, [userId, issuer])
  try {
    await tx.run(LINK, [userId, issuer, subject])
  } catch (error) {
    if (!(error instanceof SqlError) || error.code !== UNIQUE_VIOLATION) throw error
    throw new Error(`The subject ${subject} is linked to another user`, { cause: error })
  }
  return former?.subject
}

async function link(values: Values): Promise<void> {
  const [issuer, subject] = [required(values, 'issuer'), required(values, 'subject')]
  if (!isSubject(subject)) throw new UsageError('--subject must be 1 to 255 ASCII characters')
  const config = readConfig()
  await withDatabase(config, async (database) => {
    const { id, email } = await findUser(database, values.email)
    const former = await database.transaction((tx) => replaceLink(tx, { userId: id, issuer, subject }))
    const replaced = former === undefined || former === subject ? '' : `, in place of the subject ${former}`
    console.log(`Linked ${email} to the subject ${subject} of ${issuer}${replaced}`)
  })
  if (config.AUTH_ISSUER !== undefined && config.AUTH_ISSUER !== issuer) {
    console.error(`AUTH_ISSUER is ${config.AUTH_ISSUER}: tokens of another issuer are refused`)
  }
}

async function confirmEmail(values: Values): Promise<void> {
  await withDatabase(readConfig(), async (database) => {
    const { id, email } = await findUser(database, values.email)
    await database.run(CONFIRM, [id])
    console.log(`Confirmed the e-mail address ${email} of the user ${id}`)
  })
}

const where = `It writes to DATABASE_URL, also beside running servers, which know of it within 5 s; without it, to the
embedded database in DATA_DIR, which no server may have open at that time.`

const user = { email: 'The e-mail address of the user' }

export const usersLink: Command = {
  summary: 'Link a user to a subject of an identity provider',
  details: `Tokens with these 'iss' and 'sub' claims are then accepted for the user, whatever e-mail address they name.
A former subject of the same issuer is replaced. Make sure first that the account belongs to that person: a
password, sessions and API keys that another person has remain valid.
${where}`,
  arguments: user,
  options: {
    issuer: { value: 'url', help: "The 'iss' claim, exactly as AUTH_ISSUER has it" },
    subject: { value: 'text', help: "The 'sub' claim" },
  },
  run: link,
}

export const usersConfirmEmail: Command = {
  summary: "Confirm that a user's e-mail address is theirs",
  details: `The first token of the identity provider with that verified address then links the user. A later change of the
address by the user ends it. Make sure first that the account belongs to the owner of the address: a password,
sessions and API keys that another person has remain valid.
${where}`,
  arguments: user,
  options: {},
  run: confirmEmail,
}
