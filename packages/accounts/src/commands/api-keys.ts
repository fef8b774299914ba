/** `api-keys list`, `api-keys create` and `api-keys revoke`: manage API keys directly in the database. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import {
  jsonOption,
  printResult,
  printRows,
  wholeNumber,
  withDatabase,
  withMigratedDatabase,
} from '@resource-api/cli'
import { newId, users } from '@resource-api/database'
import { apiKeys } from '@resource-api/database/tables'
import { type Config, readConfig } from '@resource-api/http/config'
import { changeRows, SYSTEM_ORIGIN } from '@resource-api/resources/internal'
import { and, eq, gt, sql } from 'drizzle-orm'
import { sendNotice } from '../accounts/notices.ts'
import { getKeyPrefix, hashKey, makeKey } from '../auth/key-format.ts'
import { lockUser } from '../auth/lock-caller.ts'
import { getAccountRecorders } from '../recorders.ts'
import { createApiKeys, ensureRoomForKey } from '../resources/api-keys.ts'
import { createStore, findUser, READS_HELP, readFields, WRITES_HELP } from './accounts.ts'

const DAY_MS = 24 * 3600 * 1000

const COLUMNS = ['id', 'prefix', 'owner', 'name', 'scopes', 'last_used_at', 'expires_at']

const list = new Command('list')
  .description('List the API keys')
  .option('--email <address>', 'Only keys of the user with this email address')
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

/** Returns the scopes that a key can have. Loads the application, which takes 0.2 s. */
type ListScopes = (config?: Config) => Promise<string[]>

/** The scopes for the help, which is formatted synchronously. */
let scopesOfHelp: readonly string[] = []

const createCreate = (listScopes: ListScopes) =>
  new Command('create')
    .description('Create an API key')
    .requiredOption('--email <address>', 'The email address of the user whom the key acts for')
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
      const collection = createApiKeys(await listScopes(config))
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

export const createKeyCommands = (listScopes: ListScopes) => {
  const create = createCreate(listScopes)
  return {
    keyCommands: [list, create, revoke],
    /** Loads the scopes that the help of `create` names. */
    async loadKeyScopes(_group: CommandUnknownOpts, command: CommandUnknownOpts): Promise<void> {
      if (command.name() === create.name()) scopesOfHelp = await listScopes()
    },
  }
}
