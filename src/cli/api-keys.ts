/** `api-keys list`, `api-keys create` and `api-keys revoke`: manage API keys directly in the database. */
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { and, eq, gt, sql } from 'drizzle-orm'
import type { Database } from '../../drizzle/client/index.ts'
import { apiKeys } from '../../drizzle/credential-tables.ts'
import { users } from '../../drizzle/tables.ts'
import { newId } from '../../lib/ids.ts'
import { listScopes } from '../../plugins/access/index.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { lockUser } from '../../plugins/auth/lock-caller.ts'
import { createStores } from '../../plugins/collection/sql/write.ts'
import { SYSTEM_ORIGIN } from '../../plugins/outbox/origin.ts'
import { changeRows } from '../../plugins/outbox/recorder.ts'
import { createApiKeysResource, ensureRoomForKey } from '../../plugins/resources/api-keys.ts'
import { type Config, readConfig } from '../config.ts'
import { getAccountRecorders } from '../recorders.ts'
import { findUser, jsonOption, READS_HELP, readFields, WRITES_HELP } from './accounts.ts'
import { withDatabase, withMigratedDatabase } from './database.ts'
import { printJson, printTable, type SelectPage } from './print-rows.ts'
import { wholeNumber } from './usage-error.ts'

const DAY_MS = 24 * 3600 * 1000

const COLUMNS = ['id', 'prefix', 'owner', 'name', 'scopes', 'last_used_at', 'expires_at']

/** Selects keys, of one user or of all. */
const selectPage = (database: Database, userId: string | undefined, afterId: string, limit: number) =>
  database
    .select({
      id: apiKeys.id,
      prefix: apiKeys.prefix,
      owner: sql<string>`${users.email}`.as('owner'),
      name: apiKeys.name,
      scopes: apiKeys.scopes,
      last_used_at: apiKeys.last_used_at,
      expires_at: apiKeys.expires_at,
      created_at: apiKeys.created_at,
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.user_id))
    .where(and(gt(apiKeys.id, afterId), userId === undefined ? undefined : eq(apiKeys.user_id, userId)))
    .orderBy(apiKeys.id)
    .limit(limit)

export const keysList = new Command('list')
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
      const select: SelectPage = (afterId, limit) => selectPage(database, userId, afterId, limit)
      return json ? printJson(select) : printTable(select, COLUMNS)
    }),
  )

/** Returns the scopes that a key can have. Loads the app, which takes 0.2 s. */
async function listKeyScopes(config?: Config): Promise<string[]> {
  const { listDefinitions } = await import('../app.ts')
  return listScopes(listDefinitions(config))
}

/** The scopes for the help, which is formatted synchronously. */
let scopesOfHelp: readonly string[] = []

/** Loads the scopes that the help of `create` names. */
export async function loadKeyScopes(_group: CommandUnknownOpts, command: CommandUnknownOpts): Promise<void> {
  if (command.name() === keysCreate.name()) scopesOfHelp = await listKeyScopes()
}

export const keysCreate = new Command('create')
  .description('Create an API key')
  .requiredOption('--email <address>', 'The e-mail address of the user whom the key acts for')
  .requiredOption('--name <name>', 'The purpose of the key')
  .option('--scopes <list>', 'Scopes, separated by commas, such as products:read (write includes read)', '*')
  .option('--days <n>', 'Days until it expires, 365 at most', wholeNumber(1, 365), 90)
  .addHelpText(
    'after',
    () => `
The scopes are ${scopesOfHelp.join(', ')}.
Only the key goes to standard output.
${WRITES_HELP}`,
  )
  .action(async ({ email, name, scopes, days }) => {
    const config = readConfig()
    const apiKeysResource = createApiKeysResource(await listKeyScopes(config))
    const body = readFields(apiKeysResource, {
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
        const store = createStores(apiKeysResource, getAccountRecorders(config)).store(tx, SYSTEM_ORIGIN)
        const credential = { user_id: owner.id, prefix: getKeyPrefix(key), key_hash: hashKey(key) }
        await store.insert({ ...body, id: newId(), ...credential })
      })
    })
    console.error(`An API key of ${email}, valid for ${days} days; it is shown only this once:`)
    console.log(key)
  })

export const keysRevoke = new Command('revoke')
  .description('Revoke an API key')
  .requiredOption('--prefix <text>', 'The prefix of the key, as in GET /api-keys')
  .addHelpText('after', `\n${WRITES_HELP}`)
  .action(async ({ prefix }) => {
    const config = readConfig()
    await withDatabase(config, async (database) => {
      const context = {
        connection: database,
        recorders: getAccountRecorders(config),
        origin: SYSTEM_ORIGIN,
      }
      const deletion = database.delete(apiKeys).where(eq(apiKeys.prefix, prefix))
      const revoked = await changeRows(context, apiKeys, 'deleted', deletion, {
        returning: { name: apiKeys.name },
      })
      if (revoked.length === 0) throw new Error(`No API key has the prefix ${prefix}`)
      for (const { name } of revoked) console.log(`Revoked '${name}'; running servers reject it within 5 s`)
    })
  })
