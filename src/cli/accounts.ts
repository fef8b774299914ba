/** `users create`, `api-keys create`, `api-keys revoke`: manage accounts and keys directly in the database. */
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { apiKeys } from '../../drizzle/credential-tables.ts'
import { toEmailAddress } from '../../lib/email-address.ts'
import { newId } from '../../lib/ids.ts'
import { listScopes } from '../../plugins/access/index.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { lockUser } from '../../plugins/auth/lock-caller.ts'
import { hashPassword } from '../../plugins/auth/passwords.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { createBodyReader } from '../../plugins/collection/request/body.ts'
import { createStores } from '../../plugins/collection/sql/write.ts'
import { ApiError } from '../../plugins/errors/index.ts'
import { SYSTEM_ORIGIN } from '../../plugins/outbox/origin.ts'
import { changeRows } from '../../plugins/outbox/recorder.ts'
import { createApiKeysResource, ensureRoomForKey } from '../../plugins/resources/api-keys.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { createAjv } from '../../plugins/validation/formats.ts'
import { roles } from '../../schemas/users.ts'
import { type Config, readConfig } from '../config.ts'
import { getAccountRecorders } from '../recorders.ts'
import { askSecret } from './ask.ts'
import { type Command, getRequired, getWholeNumber, UsageError, type Values } from './command.ts'
import { withDatabase } from './open.ts'

const DAY_MS = 24 * 3600 * 1000

/** Validates and normalizes fields as the API does. @throws UsageError with all violations */
export function readFields(
  { check, schemas }: Pick<ResourceDefinition, 'check' | 'schemas'>,
  fields: Record<string, unknown>,
  mode: 'create' | 'update' = 'create',
): Record<string, unknown> {
  const input = mode === 'create' ? schemas.create : schemas.change
  const reader = createBodyReader({ ajv: createAjv(), read: schemas.read, input, mode, check })
  try {
    return reader.read({ members: fields, prefix: '', violations: [] })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new UsageError(error.violations.map(({ field, message }) => `${field} ${message}`).join('; '))
  }
}

async function createUser(values: Values): Promise<void> {
  const [email, name, role] = ['email', 'name', 'role'].map((option) => getRequired(values, option))
  const password = await askSecret('Password (12 characters or more; empty for none): ')
  const body = readFields(usersResource, { email, name, role, ...(password === '' ? {} : { password }) })
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
}

/** @throws UsageError if the text is not an e-mail address, Error if no user has it */
export async function findUser(
  database: Database,
  text: string | undefined,
): Promise<{ id: string; email: string }> {
  const email = toEmailAddress(text ?? '')
  if (email === undefined) throw new UsageError('An e-mail address consists of visible ASCII characters')
  const [user] = await queryRows<{ id: string }>(database, 'select id from users where email = $1', [email])
  if (!user) throw new Error(`No user has the e-mail address ${email}`)
  return { id: user.id, email }
}

/** Returns the scopes that a key can have. Loads the app, which takes longer than all else of a command. */
async function listKeyScopes(config?: Config): Promise<string[]> {
  const { listDefinitions } = await import('../app.ts')
  return listScopes(listDefinitions(config))
}

async function createKey(values: Values): Promise<void> {
  const email = getRequired(values, 'email')
  const days = getWholeNumber(values, 'days', 1, 365)
  const config = readConfig()
  const apiKeysResource = createApiKeysResource(await listKeyScopes(config))
  const body = readFields(apiKeysResource, {
    name: getRequired(values, 'name'),
    scopes: getRequired(values, 'scopes').split(','),
    expires_at: new Date(Date.now() + days * DAY_MS).toISOString(),
  })
  const key = makeKey()
  await withDatabase(config, async (database) => {
    const owner = await findUser(database, email)
    await database.transaction(async (tx) => {
      await lockUser(tx, owner.id)
      await ensureRoomForKey(tx, owner.id)
      await createStores(apiKeysResource, getAccountRecorders(config))
        .store(tx, SYSTEM_ORIGIN)
        .insert({
          ...body,
          id: newId(),
          user_id: owner.id,
          prefix: getKeyPrefix(key),
          key_hash: hashKey(key),
        })
    })
  })
  console.error(`An API key of ${email}, valid for ${days} days; it is shown only this once:`)
  console.log(key)
}

async function revokeKey(values: Values): Promise<void> {
  const prefix = getRequired(values, 'prefix')
  const config = readConfig()
  await withDatabase(config, async (database) => {
    const context = { recorders: getAccountRecorders(config), origin: SYSTEM_ORIGIN }
    const revoked = await changeRows<{ name: string }>(database, context, apiKeys, 'deleted', {
      text: 'delete from api_keys where prefix = $1',
      params: [prefix],
      returning: 'name',
    })
    if (revoked.length === 0) throw new Error(`No API key has the prefix ${prefix}`)
    for (const { name } of revoked) console.log(`Revoked '${name}'; running servers reject it within 5 s`)
  })
}

const databaseHelp = `Writes to DATABASE_URL; servers may run at the same time. Without DATABASE_URL, writes to the
embedded database in DATA_DIR, which no running server may have open (if one has, use POST /users and
POST /api-keys).`

export const usersCreate: Command = {
  summary: 'Create a user, such as the first admin',
  details: `Asks for the password without echo, or reads it from the first line of standard input.\n${databaseHelp}`,
  options: {
    email: { value: 'address', help: 'The e-mail address' },
    name: { value: 'name', help: 'The display name', default: 'Admin' },
    role: { value: 'role', help: 'member, manager or admin', choices: roles, default: 'member' },
  },
  run: createUser,
}

export const keysCreate: Command = {
  summary: 'Create an API key',
  details: async () => `The scopes are ${(await listKeyScopes()).join(', ')}.
Only the key goes to standard output.\n${databaseHelp}`,
  options: {
    email: { value: 'address', help: 'The e-mail address of the user whom the key acts for' },
    name: { value: 'name', help: 'The purpose of the key' },
    scopes: {
      value: 'list',
      help: 'Scopes, separated by commas, such as products:read (write includes read)',
      default: '*',
    },
    days: { value: 'n', help: 'Days until it expires, 365 at most', default: '90' },
  },
  run: createKey,
}

export const keysRevoke: Command = {
  summary: 'Revoke an API key',
  details: databaseHelp,
  options: { prefix: { value: 'text', help: 'The prefix of the key, as in GET /api-keys' } },
  run: revokeKey,
}
