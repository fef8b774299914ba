/** `users set-password`, `users set-role`, `users set-status`: change an account directly in the database. */
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { type Actor, ANONYMOUS_ACTOR } from '../../plugins/access/index.ts'
import { hashPassword } from '../../plugins/auth/passwords.ts'
import { getText, type Row } from '../../plugins/collection/definition.ts'
import { createStores } from '../../plugins/collection/sql/write.ts'
import { SYSTEM_ORIGIN } from '../../plugins/outbox/origin.ts'
import type { Recorders } from '../../plugins/outbox/recorder.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { roles, userStatuses } from '../../schemas/users.ts'
import { readConfig } from '../config.ts'
import { getAccountRecorders } from '../recorders.ts'
import { findUser, readFields } from './accounts.ts'
import { askSecret } from './ask.ts'
import { type Command, type Flags, getRequired, UsageError, type Values } from './command.ts'
import { withDatabase } from './open.ts'

/** The operator, who is no user: all sessions of a user end, and none is spared as the caller's own. */
const OPERATOR: Actor = { ...ANONYMOUS_ACTOR, role: 'admin' }

const SELECT_USER = 'select * from users where id = $1 for update'
const COUNT_SESSIONS = 'select count(*) from sessions where user_id = $1'
const COUNT_KEYS = 'select count(*) from api_keys where user_id = $1'

interface Result {
  before: Row
  after: Row
  endedSessions: number
  revokedKeys: number
}

/**
 * Changes a user as `PATCH /users/{id}` does: the last active admin remains, and sessions end.
 * @param changes columns and fields
 * @throws ApiError 409 if no active admin would remain
 */
function changeUser(
  database: Database,
  recorders: Recorders,
  id: string,
  changes: Record<string, unknown>,
): Promise<Result> {
  return database.transaction(async (tx) => {
    const count = async (sql: string) => (await queryRows<{ count: number }>(tx, sql, [id]))[0]?.count ?? 0
    const [before] = await queryRows<Row>(tx, SELECT_USER, [id])
    if (!before) throw new Error('The user was deleted in the meantime')
    const [sessions, keys] = [await count(COUNT_SESSIONS), await count(COUNT_KEYS)]
    const next = { ...before, ...changes }
    const changed = new Set(Object.keys(changes).filter((name) => next[name] !== before[name]))
    const store = createStores(usersResource, recorders).store(tx, SYSTEM_ORIGIN)
    const after = await usersResource.actions?.change?.(store, before, { next, changed }, OPERATOR)
    if (!after) throw new Error('Users cannot be changed')
    const [endedSessions, revokedKeys] = [
      sessions - (await count(COUNT_SESSIONS)),
      keys - (await count(COUNT_KEYS)),
    ]
    return { before, after, endedSessions, revokedKeys }
  })
}

const formatCount = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

/** @throws UsageError if it is no valid password for this user */
function checkPassword(user: Row, password: string): void {
  const { schemas, check } = usersResource
  const { email, name } = user
  readFields(
    { schemas, check: (body, mode) => check?.({ email, name, ...body }, mode) ?? [] },
    { password },
    'update',
  )
}

async function setPassword(values: Values, flags: Flags): Promise<void> {
  const password = await askSecret('New password (12 characters or more): ')
  if (password === '') throw new UsageError('A password is required')
  const config = readConfig()
  await withDatabase(config, async (database) => {
    const { id, email } = await findUser(database, values.email)
    const [user] = await queryRows<Row>(database, 'select email, name, status from users where id = $1', [id])
    if (!user) throw new Error('The user was deleted in the meantime')
    checkPassword(user, password)
    const { endedSessions, revokedKeys } = await changeUser(database, getAccountRecorders(config), id, {
      password,
      password_hash: await hashPassword(password),
      ...(flags.has('revoke-api-keys') && { revoke_api_keys: true }),
    })
    const keys = flags.has('revoke-api-keys') ? ` and revoked ${formatCount(revokedKeys, 'API key')}` : ''
    console.log(`Set the password of ${email}; ended ${formatCount(endedSessions, 'session')}${keys}`)
    if (user.status !== 'active') console.error(`Warning: ${email} is ${user.status} and cannot sign in`)
  })
}

/** Sets a field that has a few values. */
async function setField(values: Values, field: 'role' | 'status'): Promise<void> {
  const value = getRequired(values, field)
  const config = readConfig()
  await withDatabase(config, async (database) => {
    const { id, email } = await findUser(database, values.email)
    const recorders = getAccountRecorders(config)
    const { before, after, endedSessions } = await changeUser(database, recorders, id, { [field]: value })
    const ended = endedSessions === 0 ? '' : `; ended ${formatCount(endedSessions, 'session')}`
    console.log(
      before[field] === after[field]
        ? `The ${field} of ${email} is ${value} already`
        : `Changed the ${field} of ${email} from ${getText(before, field)} to ${getText(after, field)}${ended}`,
    )
  })
}

const databaseHelp = `Writes to DATABASE_URL; running servers apply the change within 5 s. Without DATABASE_URL, writes to the
embedded database in DATA_DIR, which no running server may have open.`

const userArguments = { email: 'The e-mail address of the user' }

export const usersSetPassword: Command = {
  summary: 'Set the password of a user',
  details: `For lost credentials. Asks for the password without echo, or reads it from the first line of standard input.
Ends all sessions of the user. The API keys stay valid, unless --revoke-api-keys is passed.
${databaseHelp}`,
  arguments: userArguments,
  options: { 'revoke-api-keys': { help: 'Delete all API keys of the user too' } },
  run: setPassword,
}

export const usersSetRole: Command = {
  summary: 'Change the role of a user',
  details: `The last active admin keeps the role.\n${databaseHelp}`,
  arguments: userArguments,
  options: { role: { value: 'role', help: 'member, manager or admin', choices: roles } },
  run: (values) => setField(values, 'role'),
}

export const usersSetStatus: Command = {
  summary: 'Change the status of a user',
  details: `Only active users can authenticate. Another status ends all sessions of the user; the last active admin stays
active.
${databaseHelp}`,
  arguments: userArguments,
  options: { status: { value: 'status', help: 'active, inactive or suspended', choices: userStatuses } },
  run: (values) => setField(values, 'status'),
}
