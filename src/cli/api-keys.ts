/** `api-keys list`, `api-keys create` and `api-keys revoke`: manage API keys directly in the database. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { and, eq, gt, sql } from 'drizzle-orm'
import { apiKeys } from '../../drizzle/credential-tables.ts'
import { users } from '../../drizzle/user-tables.ts'
import { newId } from '../../lib/ids.ts'
import { sendNotice } from '../../plugins/accounts/notices.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { lockUser } from '../../plugins/auth/lock-caller.ts'
import { SYSTEM_ORIGIN } from '../../plugins/outbox/origin.ts'
import { changeRows } from '../../plugins/outbox/recorder.ts'
import { createApiKeys, ensureRoomForKey } from '../../plugins/resources/api-keys.ts'
import { getAccountRecorders } from '../built-in-resources.ts'
import { type Config, readConfig } from '../config.ts'
import { createStore, findUser, READS_HELP, readFields, WRITES_HELP } from './accounts.ts'
import { withDatabase, withMigratedDatabase } from './database.ts'
import { jsonOption } from './json-option.ts'
import { printResult, printRows } from './print-rows.ts'
import { wholeNumber } from './usage-error.ts'

const DAY_MS = 24 * 3600 * 1000

const COLUMNS = ['id', 'prefix', 'owner', 'name', 'scopes', 'last_used_at', 'expires_at']

const list = new Command('list')
  .description('List the API keys')
  .option('--email <address>', 'Only keys of the user with this e-mail address')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
The keys themselves are not stored and cannot be shown. Expired keys are listed until they are deleted.
${READS_HELP}`,
  )
  .action(({ email, json }) =>
    withMigratedDatabase(readConfig(), async (database) => {
      const userId = email === undefined ? undefined : (await findUser(database, email)).id
      const { id, user_id, prefix, name, scopes, last_used_at, expires_at, created_at } = apiKeys
      const owner = sql<string>`${users.email}`.as('owner')
      return printRows(json, COLUMNS, (afterId, limit) =>
        database
          .select({ id, prefix, owner, name, scopes, last_used_at, expires_at, created_at })
          .from(apiKeys)
          .innerJoin(users, eq(users.id, user_id))
          .where(and(gt(id, afterId), userId === undefined ? undefined : eq(user_id, userId)))
          .orderBy(id)
          .limit(limit),
      )
    }),
  )

/** Returns the scopes that a key can have. Loads the app, which takes 0.2 s. */
async function listKeyScopes(config?: Config): Promise<string[]> {
  const { listAllScopes } = await import('../resources.ts')
  return listAllScopes(config)
}

/** The scopes for the help, which is formatted synchronously. */
let scopesOfHelp: readonly string[] = []

const create = new Command('create')
  .description('Create an API key')
  .requiredOption('--email <address>', 'The e-mail address of the user whom the key acts for')
  .requiredOption('--name <name>', 'The purpose of the key')
  .option('--scopes <list>', 'Scopes, separated by commas, such as users:read (write includes read)', '*')
  .option('--days <n>', 'Days until it expires, 365 at most', wholeNumber(1, 365), 90)
  .addOption(jsonOption)
  .addHelpText(
    'after',
    () => `
The scopes are ${scopesOfHelp.join(', ')}.
Only the key goes to standard output.
${WRITES_HELP}`,
  )
  .action(async ({ email, name, scopes, days, json }) => {
    const config = readConfig()
    const collection = createApiKeys(await listKeyScopes(config))
    const body = readFields(collection, {
      name,
      scopes: scopes.split(','),
      expires_at: new Date(Date.now() + days * DAY_MS).toISOString(),
    })
    const key = makeKey()
    await withDatabase(config, async (database) => {
      const owner = await findUser(database, email)
      await database.transaction(async (tx) => {
        await lockUser(tx, owner.id)
        await ensureRoomForKey(tx, owner.id)
        const credential = { user_id: owner.id, prefix: getKeyPrefix(key), key_hash: hashKey(key) }
        const store = createStore(collection, config, tx)
        await store.insert({ ...body, id: newId(), ...credential })
        await sendNotice(store, 'api-key-created', owner, { key: name })
      })
    })
    console.error(`An API key of ${email}, valid for ${days} days; it is shown only this once:`)
    printResult(json, { key, prefix: getKeyPrefix(key), expires_at: body.expires_at }, key)
  })

const revoke = new Command('revoke')
  .description('Revoke an API key')
  .requiredOption('--prefix <text>', 'The prefix of the key, as in GET /api-keys')
  .addOption(jsonOption)
  .addHelpText('after', `\n${WRITES_HELP}`)
  .action(async ({ prefix, json }) => {
    const config = readConfig()
    await withDatabase(config, async (database) => {
      const recorders = getAccountRecorders(config)
      const context = { connection: database, recorders, origin: SYSTEM_ORIGIN }
      const deletion = database.delete(apiKeys).where(eq(apiKeys.prefix, prefix))
      const revoked = await changeRows(context, apiKeys, 'deleted', deletion, {
        returning: { name: apiKeys.name },
      })
      if (revoked.length === 0) throw new Error(`No API key has the prefix ${prefix}`)
      const names = revoked.map(({ name }) => name)
      const lines = names.map((name) => `Revoked '${name}'; running servers reject it within 5 s`)
      printResult(json, { revoked: names }, lines.join('\n'))
    })
  })

export const keyCommands = [list, create, revoke]

/** Loads the scopes that the help of `create` names. */
export async function loadKeyScopes(_group: CommandUnknownOpts, command: CommandUnknownOpts): Promise<void> {
  if (command.name() === create.name()) scopesOfHelp = await listKeyScopes()
}
