/** The commands of users: list, create and change accounts directly in the database. */
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { Command, Option } from '@commander-js/extra-typings'
import { type Actor, ANONYMOUS_ACTOR } from '@resource-api/api/actor'
import {
  jsonOption,
  printResult,
  printRows,
  UsageError,
  withDatabase,
  withMigratedDatabase,
} from '@resource-api/cli'
import { type Connection, getErrorCode, newId, users } from '@resource-api/database'
import { roles } from '@resource-api/database/roles'
import { apiKeys, sessions, userIdentities } from '@resource-api/database/tables'
import { readConfig } from '@resource-api/http/config'
import { getText } from '@resource-api/resources/internal'
import { and, eq, gt, sql } from 'drizzle-orm'
import { hashPassword } from '../auth/passwords.ts'
import { isSubject } from '../auth/tokens/identity-provider.ts'
import { userStatuses } from '../schemas/users.ts'
import { changeUser, users as collection, type UserChanges, type UserRow } from '../users.ts'
import { createStore, emailArgument, findUser, READS_HELP, readFields, WRITES_HELP } from './accounts.ts'
import { invite } from './users-invite.ts'

const { id, email, name, role, status, created_at, updated_at } = users
const UNIQUE_VIOLATION = '23505'
const COLUMNS = ['id', 'email', 'name', 'role', 'status', 'created_at']

const list = new Command('list')
  .description('List the users')
  .addOption(new Option('--role <role>', 'Only users with this role').choices(roles))
  .addOption(new Option('--status <status>', 'Only users with this status').choices(userStatuses))
  .addOption(jsonOption)
  .addHelpText('after', `\n${READS_HELP}`)
  .action(({ json, ...only }) =>
    withMigratedDatabase(readConfig(), (database) =>
      printRows(json, COLUMNS, (afterId, limit) =>
        database
          .select({ id, email, name, role, status, created_at, updated_at })
          .from(users)
          .where(
            and(gt(id, afterId), only.role && eq(role, only.role), only.status && eq(status, only.status)),
          )
          .orderBy(id)
          .limit(limit),
      ),
    ),
  )

const discard = new Writable({ write: (_chunk, _encoding, done) => done() })

/**
 * Reads a secret: from a terminal without echo, otherwise from the first line of standard input.
 * @returns the line without its line break; '' if the input is empty
 * @throws if the user presses Ctrl-C, so that this does not count as an empty answer
 */
async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  const isTerminal = stdin.isTTY === true
  // From here on readline echoes to `discard`. It is created before the question is printed, so that the terminal itself
  // does not echo a fast answer.
  const lines = createInterface({ input: stdin, output: discard, terminal: isTerminal })
  if (isTerminal) stderr.write(question)
  let isInterrupted = false
  lines.once('SIGINT', () => {
    isInterrupted = true
    lines.close()
  })
  try {
    for await (const line of lines) return line
    if (isInterrupted) throw new Error('Interrupted; nothing was changed')
    return ''
  } finally {
    lines.close()
    if (isTerminal) stderr.write('\n')
  }
}

const create = new Command('create')
  .description('Create a user, such as the first admin')
  .requiredOption('--email <address>', 'The email address')
  .option('--name <name>', 'The display name', 'Admin')
  .addOption(new Option('--role <role>', 'The role').choices(roles).default('member' as const))
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Asks for the password without echo, or reads it from the first line of standard input.
${WRITES_HELP}`,
  )
  .action(async ({ json, ...fields }) => {
    const password = await askSecret('Password (12 characters or more; empty for none): ')
    const body = readFields(collection, { ...fields, ...(password !== '' && { password }) })
    const password_hash = typeof body.password === 'string' ? await hashPassword(body.password) : null
    const row = { ...body, id: newId(), email_verified_at: new Date().toISOString(), password_hash }
    const config = readConfig()
    await withDatabase(config, (database) =>
      database.transaction(async (tx) => {
        const user = await createStore(collection, config, tx).insert(row)
        const { id: userId, email: address, role: given } = user
        const text = `Created the ${given} ${address} with id ${userId}`
        printResult(json, { id: userId, email: address, role: given }, text)
      }),
    )
  })

/** The operator, who is no user: all sessions of a user end, and none is spared as the caller's own. */
const OPERATOR: Actor = { ...ANONYMOUS_ACTOR, role: 'admin' }

/**
 * Changes a user as `PATCH /users/{id}` does: the last active admin remains, and sessions end.
 * @param getChanges returns the columns and fields to change
 * @returns the user before and after the change, and the numbers of credentials that ended
 * @throws ApiError 409 if no active admin would remain
 */
async function changeByAddress(
  address: string,
  getChanges: (user: UserRow) => Partial<UserChanges['next']> | Promise<Partial<UserChanges['next']>>,
) {
  const config = readConfig()
  return withDatabase(config, async (database) => {
    const user = await findUser(database, address)
    return database.transaction(async (tx) => {
      const [before] = await tx.select().from(users).where(eq(id, user.id)).for('update')
      if (!before) throw new Error('The user was deleted in the meantime')
      const changes = await getChanges(before)
      const countSessions = () => tx.$count(sessions, eq(sessions.user_id, user.id))
      const countKeys = () => tx.$count(apiKeys, eq(apiKeys.user_id, user.id))
      const [sessionCount, keyCount] = [await countSessions(), await countKeys()]
      const next = { ...before, ...changes }
      const changed = new Set(
        Object.entries(next).flatMap(([field, value]) => (Object(before)[field] === value ? [] : field)),
      )
      const store = createStore(collection, config, tx)
      const after = await changeUser(store, before, { next, changed }, OPERATOR)
      const endedSessions = sessionCount - (await countSessions())
      return { before, after, endedSessions, endedKeys: keyCount - (await countKeys()) }
    })
  })
}

const formatCount = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

const setPassword = new Command('set-password')
  .description('Set the password of a user')
  .addArgument(emailArgument)
  .option('--revoke-api-keys', 'Delete all API keys of the user too')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
For lost credentials. Asks for the password without echo, or reads it from the first line of standard input.
Ends all sessions of the user. The API keys stay valid, unless --revoke-api-keys is passed.
${WRITES_HELP}`,
  )
  .action(async (address, { revokeApiKeys, json }) => {
    const password = await askSecret('New password (12 characters or more): ')
    if (password === '') throw new UsageError('A password is required')
    const { after, endedSessions, endedKeys } = await changeByAddress(address, async (user) => {
      // The rule that it differs from the address and the name needs those of this user.
      const check: typeof collection.check = (body, mode) =>
        collection.check?.({ email: user.email, name: user.name, ...body }, mode) ?? []
      readFields({ ...collection, check }, { password }, 'update')
      const password_hash = await hashPassword(password)
      return { password, password_hash, ...(revokeApiKeys && { revoke_api_keys: true }) }
    })
    const keys = revokeApiKeys ? ` and revoked ${formatCount(endedKeys, 'API key')}` : ''
    printResult(
      json,
      { email: after.email, ended_sessions: endedSessions, revoked_api_keys: revokeApiKeys ? endedKeys : 0 },
      `Set the password of ${after.email}; ended ${formatCount(endedSessions, 'session')}${keys}`,
    )
    if (after.status !== 'active')
      console.error(`Warning: ${after.email} is ${after.status} and cannot sign in`)
  })

/** Creates the command that sets a field that has a few values. */
const createSetter = <const F extends 'role' | 'status'>(field: F, values: readonly string[], help: string) =>
  new Command(`set-${field}`)
    .description(`Change the ${field} of a user`)
    .addArgument(emailArgument)
    .addOption(new Option(`--${field} <${field}>`, `The new ${field}`).choices(values).makeOptionMandatory())
    .addOption(jsonOption)
    .addHelpText('after', `\n${help}\n${WRITES_HELP}`)
    .action(async (address, options) => {
      const { json, ...changes }: { json?: true; [option: string]: unknown } = options
      const { before, after, endedSessions } = await changeByAddress(address, () => changes)
      const note = endedSessions === 0 ? '' : `; ended ${formatCount(endedSessions, 'session')}`
      const [former, value] = [getText(before, field), getText(after, field)]
      printResult(
        json,
        { email: after.email, [field]: value, former, ended_sessions: endedSessions },
        former === value
          ? `The ${field} of ${after.email} is ${value} already`
          : `Changed the ${field} of ${after.email} from ${former} to ${value}${note}`,
      )
    })

const STATUS_HELP = `Only active users can authenticate. Another status ends all sessions of the user; the last active admin stays
active.`

/** Links the user to the subject. @returns the subject that the user was linked to before */
async function replaceLink(tx: Connection, values: typeof userIdentities.$inferInsert) {
  const { user_id, issuer, subject } = userIdentities
  const [former] = await tx
    .select({ subject })
    .from(userIdentities)
    .where(and(eq(user_id, values.user_id), eq(issuer, values.issuer)))
    .for('update')
  try {
    await tx
      .insert(userIdentities)
      .values(values)
      .onConflictDoUpdate({
        target: [user_id, issuer],
        set: { subject: values.subject, created_at: sql`now()` },
      })
  } catch (error) {
    if (getErrorCode(error) !== UNIQUE_VIOLATION) throw error
    throw new Error(`Subject ${values.subject} is already linked to another user`, { cause: error })
  }
  return former?.subject
}

const link = new Command('link')
  .description('Link a user to a subject of an identity provider')
  .addArgument(emailArgument)
  .requiredOption('--issuer <url>', "The 'iss' claim, exactly as in AUTH_ISSUER")
  .requiredOption('--subject <text>', "The 'sub' claim")
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Tokens with these 'iss' and 'sub' claims are then accepted for the user, whatever their email
address. A previous subject of the same issuer is replaced. First make sure that the account belongs to that person:
its password, sessions and API keys stay valid, also those that another person knows.
${WRITES_HELP}`,
  )
  .action(async (address, { issuer, subject, json }) => {
    if (!isSubject(subject)) throw new UsageError('--subject must be 1 to 255 ASCII characters')
    const config = readConfig()
    await withDatabase(config, async (database) => {
      const user = await findUser(database, address)
      const former = await database.transaction((tx) =>
        replaceLink(tx, { user_id: user.id, issuer, subject }),
      )
      const replaced = former === undefined || former === subject ? '' : `, replacing the subject ${former}`
      printResult(
        json,
        { id: user.id, email: user.email, issuer, subject, replaced: former ?? null },
        `Linked ${user.email} to the subject ${subject} of ${issuer}${replaced}`,
      )
    })
    if (config.AUTH_ISSUER !== undefined && config.AUTH_ISSUER !== issuer)
      console.error(`Warning: AUTH_ISSUER is ${config.AUTH_ISSUER}; tokens of other issuers are rejected`)
  })

const confirmEmail = new Command('confirm-email')
  .description("Mark a user's email address as verified")
  .addArgument(emailArgument)
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
The first token of the identity provider with this verified address then links the user. This
ends when the user changes the address. First make sure that the account belongs to the owner of the address: its
password, sessions and API keys stay valid, also those that another person knows.
${WRITES_HELP}`,
  )
  .action(async (address, { json }) => {
    const { after } = await changeByAddress(address, () => ({ email_verified_at: new Date().toISOString() }))
    const user = { id: after.id, email: after.email }
    printResult(json, user, `Marked the email address ${user.email} of user ${user.id} as verified`)
  })

export const userCommands = [
  list,
  create,
  invite,
  setPassword,
  createSetter('role', roles, 'The last active admin keeps the role.'),
  createSetter('status', userStatuses, STATUS_HELP),
  link,
  confirmEmail,
]
