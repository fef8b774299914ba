/** The commands of users: list, create and change accounts directly in the database. */
import { Command, Option } from '@commander-js/extra-typings'
import { and, eq, gt, sql } from 'drizzle-orm'
import { SqlError } from '../../drizzle/client/errors.ts'
import type { Connection, Database } from '../../drizzle/client/index.ts'
import { apiKeys, sessions, userIdentities } from '../../drizzle/credential-tables.ts'
import { users } from '../../drizzle/tables.ts'
import { newId } from '../../lib/ids.ts'
import { type Actor, ANONYMOUS_ACTOR } from '../../plugins/access/index.ts'
import { hashPassword } from '../../plugins/auth/passwords.ts'
import { isSubject } from '../../plugins/auth/tokens/identity-provider.ts'
import { getText, type Row } from '../../plugins/collection/definition.ts'
import { createStores } from '../../plugins/collection/sql/write.ts'
import { SYSTEM_ORIGIN } from '../../plugins/outbox/origin.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { roles, userStatuses } from '../../schemas/users.ts'
import { readConfig } from '../config.ts'
import { getAccountRecorders } from '../recorders.ts'
import { emailArgument, findUser, jsonOption, READS_HELP, readFields, WRITES_HELP } from './accounts.ts'
import { askSecret } from './ask.ts'
import { withDatabase, withMigratedDatabase } from './database.ts'
import { printJson, printTable, type SelectPage } from './print-rows.ts'
import { UsageError } from './usage-error.ts'

const COLUMNS = ['id', 'email', 'name', 'role', 'status', 'created_at']

type UserRow = typeof users.$inferSelect

const selectPage = (
  database: Database,
  { role, status }: Partial<Pick<UserRow, 'role' | 'status'>>,
  afterId: string,
  limit: number,
) =>
  database
    .select({
      id: users.id,
      email: users.email,
      name: users.name,
      role: users.role,
      status: users.status,
      created_at: users.created_at,
      updated_at: users.updated_at,
    })
    .from(users)
    .where(and(gt(users.id, afterId), role && eq(users.role, role), status && eq(users.status, status)))
    .orderBy(users.id)
    .limit(limit)

export const usersList = new Command('list')
  .description('List the users')
  .addOption(new Option('--role <role>', 'Only users with this role').choices(roles))
  .addOption(new Option('--status <status>', 'Only users with this status').choices(userStatuses))
  .addOption(jsonOption)
  .addHelpText('after', `\n${READS_HELP}`)
  .action(({ json, ...filters }) =>
    withMigratedDatabase(readConfig(), (database) => {
      const select: SelectPage = (afterId, limit) => selectPage(database, filters, afterId, limit)
      return json ? printJson(select) : printTable(select, COLUMNS)
    }),
  )

export const usersCreate = new Command('create')
  .description('Create a user, such as the first admin')
  .requiredOption('--email <address>', 'The e-mail address')
  .option('--name <name>', 'The display name', 'Admin')
  .addOption(new Option('--role <role>', 'The role').choices(roles).default('member' as const))
  .addHelpText(
    'after',
    `
Asks for the password without echo, or reads it from the first line of standard input.
${WRITES_HELP}`,
  )
  .action(async ({ email, name, role }) => {
    const password = await askSecret('Password (12 characters or more; empty for none): ')
    const body = readFields(usersResource, { email, name, role, ...(password !== '' && { password }) })
    const hash = typeof body.password === 'string' ? await hashPassword(body.password) : null
    const config = readConfig()
    await withDatabase(config, (database) =>
      database.transaction(async (tx) => {
        const user = await createStores(usersResource, getAccountRecorders(config))
          .store(tx, SYSTEM_ORIGIN)
          .insert({ ...body, id: newId(), email_is_confirmed: true, password_hash: hash })
        console.log(`Created the ${user.role} ${user.email} with id ${user.id}`)
      }),
    )
  })

/** The operator, who is no user: all sessions of a user end, and none is spared as the caller's own. */
const OPERATOR: Actor = { ...ANONYMOUS_ACTOR, role: 'admin' }

interface Credentials {
  sessions: number
  keys: number
}

async function countCredentials(tx: Connection, userId: string): Promise<Credentials> {
  const [counts] = await tx.execute<{ sessions: number; keys: number }>(
    sql`select (select count(*) from ${sessions} where ${eq(sessions.user_id, userId)}) as sessions,
      (select count(*) from ${apiKeys} where ${eq(apiKeys.user_id, userId)}) as keys`,
  )
  return counts ?? { sessions: 0, keys: 0 }
}

/**
 * Changes a user as `PATCH /users/{id}` does: the last active admin remains, and sessions end.
 * @param getChanges returns the columns and fields to change
 * @returns the user before and after the change, and the numbers of credentials that ended
 * @throws ApiError 409 if no active admin would remain
 */
async function changeUser(
  email: string,
  getChanges: (user: Row) => Record<string, unknown> | Promise<Record<string, unknown>>,
): Promise<{ before: Row; after: Row; ended: Credentials }> {
  const config = readConfig()
  return withDatabase(config, async (database) => {
    const { id } = await findUser(database, email)
    return database.transaction(async (tx) => {
      const [before]: Row[] = await tx.select().from(users).where(eq(users.id, id)).for('update')
      if (!before) throw new Error('The user was deleted in the meantime')
      const changes = await getChanges(before)
      const credentials = await countCredentials(tx, id)
      const next = { ...before, ...changes }
      const changed = new Set(Object.keys(changes).filter((name) => next[name] !== before[name]))
      const store = createStores(usersResource, getAccountRecorders(config)).store(tx, SYSTEM_ORIGIN)
      const after = await usersResource.actions?.change?.(store, before, { next, changed }, OPERATOR)
      if (!after) throw new Error('Users cannot be changed')
      const left = await countCredentials(tx, id)
      const ended = { sessions: credentials.sessions - left.sessions, keys: credentials.keys - left.keys }
      return { before, after, ended }
    })
  })
}

const formatCount = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

/** @throws UsageError if it is no valid password for this user */
function checkPassword({ email, name }: Row, password: string): void {
  const { check } = usersResource
  readFields(
    { ...usersResource, check: (body, mode) => check?.({ email, name, ...body }, mode) ?? [] },
    { password },
    'update',
  )
}

export const usersSetPassword = new Command('set-password')
  .description('Set the password of a user')
  .addArgument(emailArgument)
  .option('--revoke-api-keys', 'Delete all API keys of the user too')
  .addHelpText(
    'after',
    `
For lost credentials. Asks for the password without echo, or reads it from the first line of standard input.
Ends all sessions of the user. The API keys stay valid, unless --revoke-api-keys is passed.
${WRITES_HELP}`,
  )
  .action(async (address, { revokeApiKeys = false }) => {
    const password = await askSecret('New password (12 characters or more): ')
    if (password === '') throw new UsageError('A password is required')
    const { after, ended } = await changeUser(address, async (user) => {
      checkPassword(user, password)
      const revocation = revokeApiKeys ? { revoke_api_keys: true } : {}
      return { password, password_hash: await hashPassword(password), ...revocation }
    })
    const { email, status } = after
    const keys = revokeApiKeys ? ` and revoked ${formatCount(ended.keys, 'API key')}` : ''
    console.log(`Set the password of ${email}; ended ${formatCount(ended.sessions, 'session')}${keys}`)
    if (status !== 'active') console.error(`Warning: ${email} is ${status} and cannot sign in`)
  })

/** Sets a field that has a few values. */
async function setField(address: string, field: 'role' | 'status', value: string): Promise<void> {
  const { before, after, ended } = await changeUser(address, () => ({ [field]: value }))
  const note = ended.sessions === 0 ? '' : `; ended ${formatCount(ended.sessions, 'session')}`
  console.log(
    before[field] === after[field]
      ? `The ${field} of ${after.email} is ${value} already`
      : `Changed the ${field} of ${after.email} from ${getText(before, field)} to ${getText(after, field)}${note}`,
  )
}

export const usersSetRole = new Command('set-role')
  .description('Change the role of a user')
  .addArgument(emailArgument)
  .addOption(new Option('--role <role>', 'The new role').choices(roles).makeOptionMandatory())
  .addHelpText('after', `\nThe last active admin keeps the role.\n${WRITES_HELP}`)
  .action((address, { role }) => setField(address, 'role', role))

export const usersSetStatus = new Command('set-status')
  .description('Change the status of a user')
  .addArgument(emailArgument)
  .addOption(new Option('--status <status>', 'The new status').choices(userStatuses).makeOptionMandatory())
  .addHelpText(
    'after',
    `
Only active users can authenticate. Another status ends all sessions of the user; the last active admin stays
active.
${WRITES_HELP}`,
  )
  .action((address, { status }) => setField(address, 'status', status))

const UNIQUE_VIOLATION = '23505'

interface Link {
  userId: string
  issuer: string
  subject: string
}

/** Links the user to the subject. @returns the subject that the user was linked to before */
async function replaceLink(tx: Connection, { userId, issuer, subject }: Link): Promise<string | undefined> {
  const key = [userIdentities.user_id, userIdentities.issuer]
  const [former] = await tx
    .select({ subject: userIdentities.subject })
    .from(userIdentities)
    .where(and(eq(userIdentities.user_id, userId), eq(userIdentities.issuer, issuer)))
    .for('update')
  try {
    await tx
      .insert(userIdentities)
      .values({ user_id: userId, issuer, subject })
      .onConflictDoUpdate({ target: key, set: { subject, created_at: sql`now()` } })
  } catch (error) {
    if (!(error instanceof SqlError) || error.code !== UNIQUE_VIOLATION) throw error
    throw new Error(`Subject ${subject} is already linked to another user`, { cause: error })
  }
  return former?.subject
}

export const usersLink = new Command('link')
  .description('Link a user to a subject of an identity provider')
  .addArgument(emailArgument)
  .requiredOption('--issuer <url>', "The 'iss' claim, exactly as in AUTH_ISSUER")
  .requiredOption('--subject <text>', "The 'sub' claim")
  .addHelpText(
    'after',
    `
Tokens with these 'iss' and 'sub' claims are then accepted for the user, whatever their e-mail
address. A previous subject of the same issuer is replaced. First make sure that the account belongs to that person:
its password, sessions and API keys stay valid, also those that another person knows.
${WRITES_HELP}`,
  )
  .action(async (address, { issuer, subject }) => {
    if (!isSubject(subject)) throw new UsageError('--subject must be 1 to 255 ASCII characters')
    const config = readConfig()
    await withDatabase(config, async (database) => {
      const { id, email } = await findUser(database, address)
      const former = await database.transaction((tx) => replaceLink(tx, { userId: id, issuer, subject }))
      const replaced = former === undefined || former === subject ? '' : `, replacing the subject ${former}`
      console.log(`Linked ${email} to the subject ${subject} of ${issuer}${replaced}`)
    })
    if (config.AUTH_ISSUER !== undefined && config.AUTH_ISSUER !== issuer) {
      console.error(`Warning: AUTH_ISSUER is ${config.AUTH_ISSUER}; tokens of other issuers are rejected`)
    }
  })

export const usersConfirmEmail = new Command('confirm-email')
  .description("Confirm a user's e-mail address")
  .addArgument(emailArgument)
  .addHelpText(
    'after',
    `
The first token of the identity provider with this verified address then links the user. The confirmation
ends when the user changes the address. First make sure that the account belongs to the owner of the address: its
password, sessions and API keys stay valid, also those that another person knows.
${WRITES_HELP}`,
  )
  .action((address) =>
    withDatabase(readConfig(), async (database) => {
      const { id, email } = await findUser(database, address)
      await database.update(users).set({ email_is_confirmed: true }).where(eq(users.id, id))
      console.log(`Confirmed the e-mail address ${email} of user ${id}`)
    }),
  )
