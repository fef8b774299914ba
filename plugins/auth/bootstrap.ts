/** The first admin of an empty database, and, where nobody named one, a key to begin with. */
import { randomBytes } from 'node:crypto'
import type { Connection, Database } from '../../drizzle/client/index.ts'
import { newId } from '../../lib/ids.ts'
import { buildSearchText } from '../collection/sql/case-folding.ts'
import { hashKey, makeKey, prefixOf } from './key-format.ts'
import { hashPassword } from './passwords.ts'

export interface BootstrapOptions {
  email: string
  password: string | undefined
  /** Whether ADMIN_API_KEY is set. */
  hasKey: boolean
  /** Whether an admin and a key are made where none were named. */
  mayMake: boolean
}

/** What was made, to be shown once. */
export interface FirstCredentials {
  email: string
  password: string
  key: string
}

/** Replicas may start together; any number that nobody else uses. */
const LOCK = 4_271_993_006
const NAME = 'Admin'
const YEAR = 365

async function insertAdmin(tx: Connection, email: string, password: string | undefined): Promise<string> {
  const id = newId()
  const hash = password === undefined ? null : await hashPassword(password)
  const search = buildSearchText({ name: NAME, email }, ['name', 'email'])
  await tx.run(
    `insert into users (id, name, email, email_is_confirmed, role, password_hash, search)
     values ($1, $2, $3, true, 'admin', $4, $5)`,
    [id, NAME, email, hash, search],
  )
  return id
}

async function insertKey(tx: Connection, userId: string): Promise<string> {
  const key = makeKey()
  await tx.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'First key', $3, $4, '["*"]', now() + make_interval(days => $5))`,
    [newId(), userId, prefixOf(key), hashKey(key), YEAR],
  )
  return key
}

/**
 * Makes the first admin where there is no user yet.
 * @param announce is told what had to be invented before it is committed: what nobody could be told is not made
 * @returns what was invented, undefined where everything was named or there is somebody already
 */
export async function bootstrap(
  database: Database,
  { email, password, hasKey, mayMake }: BootstrapOptions,
  announce?: (made: FirstCredentials) => Promise<void>,
): Promise<FirstCredentials | undefined> {
  const address = email.toLowerCase()
  return database.transaction(async (tx) => {
    await tx.run('select pg_advisory_xact_lock($1)', [LOCK])
    const [somebody] = await tx.run('select 1 from users limit 1')
    if (somebody) return undefined
    if (password !== undefined || hasKey) {
      await insertAdmin(tx, address, password)
      return undefined
    }
    if (!mayMake) return undefined
    const made = randomBytes(18).toString('base64url')
    const id = await insertAdmin(tx, address, made)
    const invented = { email: address, password: made, key: await insertKey(tx, id) }
    await announce?.(invented)
    return invented
  })
}
