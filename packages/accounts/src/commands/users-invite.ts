/** The command that invites a user: the row of a mail, which a running server sends. */
import { Command, Option } from '@commander-js/extra-typings'
import { jsonOption, printResult, UsageError, withDatabase } from '@resource-api/cli'
import { newId, users } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/client'
import { roles } from '@resource-api/database/roles'
import { type Config, loadAppSecret, readConfig } from '@resource-api/http/config'
import type { Mailer } from '@resource-api/resources/internal'
import { eq } from 'drizzle-orm'
import { sendReset } from '../accounts/send-reset.ts'
import { enqueueMail } from '../mail/enqueue.ts'
import { createMailBox, isMailConfigured } from '../mail/mail-settings.ts'
import { users as usersCollection } from '../users.ts'
import { createStore, emailArgument, readFields } from './accounts.ts'

const { id, email, password_hash, role, status } = users

interface Invited {
  id: string
  email: string
  role: string
}

/** @throws Error if the user cannot be invited */
function checkInvitable(user: { email: string; password_hash: string | null; status: string }): void {
  if (user.status !== 'active') throw new Error(`${user.email} is ${user.status}`)
  if (user.password_hash === null) return
  throw new Error(`${user.email} has a password already; POST /password-resets sends a mail to set another`)
}

/** Returns the user with the address, without a password. One that does not exist is created. */
async function findOrCreate(
  tx: Transaction,
  config: Config,
  fields: { email: string; name?: string; role?: string },
): Promise<{ user: Invited; isNew: boolean }> {
  const [name = ''] = fields.email.split('@')
  const body = readFields(usersCollection, { name, ...fields })
  const [user] = await tx
    .select({ id, email, role, password_hash, status })
    .from(users)
    .where(eq(email, String(body.email)))
    .for('no key update')
  if (user) {
    checkInvitable(user)
    if (fields.name === undefined && fields.role === undefined) return { user, isNew: false }
    throw new UsageError(`${user.email} exists; --name and --role are for a new user`)
  }
  const email_verified_at = new Date().toISOString()
  const row = { ...body, id: newId(), email_verified_at, password_hash: null }
  const created = await createStore(usersCollection, config, tx).insert(row)
  return { user: { id: created.id, email: String(created.email), role: String(created.role) }, isNew: true }
}

export const invite = new Command('invite')
  .description('Send a user without a password a mail to set one')
  .addArgument(emailArgument)
  .option('--name <name>', 'The display name of a new user (default: the address before the @)')
  .addOption(new Option('--role <role>', 'The role of a new user (default: member)').choices(roles))
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Creates the user if there is none with the address. The link in the mail is valid for 7 days, and so are those of
earlier invitations. A running server with the same APP_SECRET sends the mail, or the next one that starts.`,
  )
  .action(async (address, { json, ...fields }) => {
    const config = readConfig()
    if (!isMailConfigured(config)) throw new UsageError('No mail can be sent: MAIL_URL is not set')
    const secretBox = createMailBox({ ...config, APP_SECRET: await loadAppSecret(config) })
    const mail: Pick<Mailer, 'enqueue'> = {
      enqueue: (connection, sent) => enqueueMail(connection, sent, secretBox),
    }
    const { user, isNew } = await withDatabase(config, (database) =>
      database.transaction(async (tx) => {
        const found = await findOrCreate(tx, config, { email: address, ...fields })
        const to = found.user.email
        if (await sendReset(tx, mail, { purpose: 'invite', email: to })) return found
        throw new Error(`${to} has five invitations that are valid; no other one is sent`)
      }),
    )
    const text = isNew ? `Created and invited the ${user.role} ${user.email}` : `Invited ${user.email}`
    printResult(
      json,
      { id: user.id, email: user.email, role: user.role, created: isNew },
      `${text} with id ${user.id}; a running server sends the mail`,
    )
  })
