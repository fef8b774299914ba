/** Creates the first admin of an empty database and, if none is configured, a password and an API key for that admin. */
import { randomBytes } from 'node:crypto'
import { type Connection, type Database, newId, users } from '@resource-api/database'
import { apiKeys, hashForLock } from '@resource-api/database/tables'
import { changeRows, type Recorders, SYSTEM_ORIGIN } from '@resource-api/resources/internal'
import { buildSearchText } from '@resource-api/resources/search-text'
import { sql } from 'drizzle-orm'
import { isCommonPassword } from './common-passwords.ts'
import { getKeyPrefix, hashKey, makeKey } from './key-format.ts'
import { hashPassword } from './passwords.ts'

interface BootstrapOptions {
  email: string
  /** ADMIN_PASSWORD, if it is set. */
  password: string | undefined
  /** Whether ADMIN_API_KEY is set. */
  hasKey: boolean
  /** Whether a password and a key may be generated if neither is configured. */
  canGenerate: boolean
  /** Without, no events are written. */
  recorders?: Recorders
}

/** Generated credentials, which are shown once. */
export interface FirstCredentials {
  email: string
  password: string
  key: string
}

interface BootstrapResult {
  /** The generated credentials, if they were needed. */
  credentials?: FirstCredentials
  /** Whether the database had users before. */
  hadUsers: boolean
  hasActiveAdmin: boolean
}

/** Serializes replicas that start together. The key is that of the table: services in other schemas do not wait for it. */
const LOCK = sql`select pg_advisory_xact_lock(${hashForLock(users, 4271993006)})`
const ADMIN_NAME = 'Admin'
const KEY_LIFETIME_DAYS = 365
const PASSWORD_BYTES = 18

const SELECT_STATE = sql`select exists (select from ${users}) as had_users,
  exists (select from ${users} where ${users.role} = 'admin' and ${users.status} = 'active') as has_active_admin`

/** Returns whether the database has users, and an admin who can sign in. */
export async function readAdminState(connection: Connection) {
  const [state] = await connection.execute<{ had_users: boolean; has_active_admin: boolean }>(SELECT_STATE)
  return { hadUsers: state?.had_users === true, hasActiveAdmin: state?.has_active_admin === true }
}

/**
 * Creates the first admin if the database has no users.
 * @param announce shows the generated credentials before the commit: if it fails, nothing is created
 * @throws Error if the password is a common one
 */
export async function bootstrap(
  database: Database,
  { email: sentEmail, password, hasKey, canGenerate, recorders = new Map() }: BootstrapOptions,
  announce?: (credentials: FirstCredentials) => Promise<void>,
): Promise<BootstrapResult> {
  const email = sentEmail.toLowerCase()
  return database.transaction(async (tx) => {
    const context = { connection: tx, recorders, origin: SYSTEM_ORIGIN }
    const userId = newId()

    const insertAdmin = async (text: string | undefined) => {
      const insertion = tx.insert(users).values({
        id: userId,
        name: ADMIN_NAME,
        email,
        email_verified_at: sql`now()`,
        role: 'admin',
        search: buildSearchText({ name: ADMIN_NAME, email }, ['name', 'email']),
        password_hash: text === undefined ? null : await hashPassword(text),
      })
      await changeRows(context, users, 'created', insertion)
    }
    const insertKey = async (key: string) => {
      const insertion = tx.insert(apiKeys).values({
        id: newId(),
        user_id: userId,
        name: 'First key',
        prefix: getKeyPrefix(key),
        key_hash: hashKey(key),
        scopes: ['*'],
        expires_at: sql`now() + make_interval(days => ${KEY_LIFETIME_DAYS})`,
      })
      await changeRows(context, apiKeys, 'created', insertion)
    }

    await tx.execute(LOCK)
    const state = await readAdminState(tx)
    if (state.hadUsers) return state
    if (password !== undefined && isCommonPassword(password)) {
      throw new Error('ADMIN_PASSWORD is one of the most common passwords: choose another one')
    }
    const isConfigured = password !== undefined || hasKey
    if (isConfigured) await insertAdmin(password)
    if (isConfigured || !canGenerate) return { hadUsers: false, hasActiveAdmin: isConfigured }
    const credentials = {
      email,
      password: randomBytes(PASSWORD_BYTES).toString('base64url'),
      key: makeKey(),
    }
    await insertAdmin(credentials.password)
    await insertKey(credentials.key)
    await announce?.(credentials)
    return { credentials, hadUsers: false, hasActiveAdmin: true }
  })
}
