/** `users create`, `api-keys create`, `api-keys revoke`: accounts and keys without a server to ask. */

import type { Database } from '../../drizzle/client/index.ts'
import { toEmailAddress } from '../../lib/email-address.ts'
import { newId } from '../../lib/ids.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { hashPassword } from '../../plugins/auth/passwords.ts'
import { createBodyReader } from '../../plugins/collection/request/body.ts'
import { createStores } from '../../plugins/collection/sql/write.ts'
import { ApiError } from '../../plugins/errors/index.ts'
import { createApiKeysCard, reserveKey } from '../../plugins/resources/api-keys.ts'
import { usersCard } from '../../plugins/resources/users.ts'
import { createAjv } from '../../plugins/validation/formats.ts'
import { readConfig } from '../config.ts'
import { askSecret } from './ask.ts'
import { type Command, required, UsageError, type Values, wholeNumber } from './command.ts'
import { withDatabase } from './open.ts'

const DAY = 24 * 3600 * 1000

const readerOf = (card: typeof usersCard) =>
  createBodyReader({
    ajv: createAjv(),
    read: card.schemas.read,
    input: card.schemas.create,
    mode: 'create',
    check: card.check,
  })

/** What the API would say of the same members, as words for a person. */
function read(card: typeof usersCard, members: Record<string, unknown>): Record<string, unknown> {
  try {
    return readerOf(card).read(members, '')
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new UsageError(error.violations.map(({ field, message }) => `${field} ${message}`).join('; '))
  }
}

async function createUser(values: Values): Promise<void> {
  const [email, name, role] = ['email', 'name', 'role'].map((option) => required(values, option))
  const password = await askSecret('Password (12 characters or more; none if empty): ')
  const body = read(usersCard, { email, name, role, ...(password === '' ? {} : { password }) })
  const hash = password === '' ? null : await hashPassword(String(body.password))
  await withDatabase(readConfig(), (database) =>
    database.transaction(async (tx) => {
      const user = await createStores(usersCard)
        .store(tx)
        .insert({ ...body, id: newId(), email_is_confirmed: true, password_hash: hash })
      console.log(`Made the ${user.role} ${user.email}, id ${user.id}`)
    }),
  )
}

/** @throws UsageError for an address that no user can have */
export async function findUser(
  database: Database,
  typed: string | undefined,
): Promise<{ id: string; email: string }> {
  const email = toEmailAddress(typed ?? '')
  if (email === undefined) throw new UsageError('An e-mail address has visible ASCII characters only')
  const [user] = await database.run('select id from users where email = $1', [email])
  if (!user) throw new Error(`There is no user ${email}`)
  return { id: String(user.id), email }
}

async function createKey(values: Values): Promise<void> {
  const email = required(values, 'email')
  const days = wholeNumber(values, 'days', 1, 365)
  const { cards } = await import('../app.ts')
  const apiKeysCard = createApiKeysCard(cards.map(({ name }) => name))
  const body = read(apiKeysCard, {
    name: required(values, 'name'),
    scopes: required(values, 'scopes').split(','),
    expires_at: new Date(Date.now() + days * DAY).toISOString(),
  })
  const key = makeKey()
  await withDatabase(readConfig(), async (database) => {
    const owner = await findUser(database, email)
    await database.transaction(async (tx) => {
      await reserveKey(tx, String(owner.id))
      await createStores(apiKeysCard)
        .store(tx)
        .insert({
          ...body,
          id: newId(),
          user_id: owner.id,
          prefix: getKeyPrefix(key),
          key_hash: hashKey(key),
        })
    })
  })
  console.error(`A key of ${email} for ${days} days; it is shown this once:`)
  console.log(key)
}

async function revokeKey(values: Values): Promise<void> {
  const prefix = required(values, 'prefix')
  await withDatabase(readConfig(), async (database) => {
    const gone = await database.run('delete from api_keys where prefix = $1 returning name', [prefix])
    if (gone.length === 0) throw new Error(`There is no key that begins with ${prefix}`)
    for (const { name } of gone) console.log(`Revoked '${name}'; servers that run refuse it within 5 s`)
  })
}

const where = `It writes to DATABASE_URL, also beside running servers; without it, to the embedded database in
DATA_DIR, which no server may have open meanwhile (there, use POST /users and POST /api-keys).`

export const usersCreate: Command = {
  summary: 'Make a user, such as the first admin',
  details: `The password is asked for, and not shown; or it is the first line of standard input.\n${where}`,
  options: {
    email: { value: 'address', help: 'To sign in with' },
    name: { value: 'name', help: 'To show', default: 'Admin' },
    role: { value: 'role', help: 'member, manager or admin', default: 'member' },
  },
  run: createUser,
}

export const keysCreate: Command = {
  summary: 'Make an API key for a machine',
  details: `The key alone goes to standard output.\n${where}`,
  options: {
    email: { value: 'address', help: 'Of the user whose power it has' },
    name: { value: 'name', help: 'What it is for' },
    scopes: {
      value: 'list',
      help: 'Such as products:read,orders:write (write includes read); * for all',
      default: '*',
    },
    days: { value: 'n', help: 'How long it is good, 365 at most', default: '90' },
  },
  run: createKey,
}

export const keysRevoke: Command = {
  summary: 'Revoke an API key',
  details: where,
  options: { prefix: { value: 'text', help: 'How the key begins, as GET /api-keys shows it' } },
  run: revokeKey,
}
