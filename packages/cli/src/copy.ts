/** `copy`: copies the database into an empty PostgreSQL database and compares the two. */
import { Command } from '@commander-js/extra-typings'
import { checkMigrations } from '@resource-api/database/backup'
import { parseAddress } from '@resource-api/database/client'
import {
  type Config,
  getSecretFile,
  readConfig,
  readKeptSecret,
  SECRET_USES,
} from '@resource-api/http/config'
import { describeLoad, loadRows, withSnapshot } from './backup/transfer.ts'
import { readSchemaConfig } from './database.ts'
import { jsonOption } from './json-option.ts'
import { printResult } from './print-rows.ts'
import { UsageError } from './usage-error.ts'

/** Returns the address without user and password. @throws UsageError if it is invalid */
function readLabel(url: string): string {
  try {
    return parseAddress(url).label
  } catch (error) {
    throw new UsageError(`--to: ${error instanceof Error ? error.message : error}`)
  }
}

async function run(options: { to: string; schema?: string; json?: true }): Promise<void> {
  const { to, json } = options
  const label = readLabel(to)
  const config = readConfig()
  const { DATABASE_SCHEMA: schema } = readSchemaConfig(options)
  const target = { ...config, DATABASE_URL: to, DATABASE_SCHEMA: schema }
  const loaded = await withSnapshot(config, (snapshot) => {
    checkMigrations(snapshot.migrations, 'The database')
    return loadRows(target, snapshot)
  })
  const setSchema = schema === config.DATABASE_SCHEMA ? '' : `DATABASE_SCHEMA to ${schema}, `
  const note = `Next: set DATABASE_URL to the address of the new database, ${setSchema}${await describeSecret(config)}, and start the server. ${SECRET_USES}`
  const lines = describeLoad(loaded, ['Copied', `to ${label}`, 'the two databases'])
  printResult(json, { to: label, schema, ...loaded, note }, [...lines, note].join('\n'))
}

/** Returns what to do with the secret, as a part of a sentence. */
async function describeSecret({ APP_SECRET: configured, DATA_DIR: dataDir }: Config): Promise<string> {
  if (configured !== undefined) return 'keep APP_SECRET'
  const isKept = (await readKeptSecret(dataDir)) !== undefined
  return isKept ? `set APP_SECRET to the content of ${getSecretFile(dataDir)}` : 'set APP_SECRET'
}

export const copy = new Command('copy')
  .description('Copy the database into an empty PostgreSQL database')
  .requiredOption('--to <url>', 'The address: postgres://user@host:port/database')
  .option('--schema <name>', 'The schema in that database, instead of DATABASE_SCHEMA')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Copies the embedded database in DATA_DIR, or the database at DATABASE_URL: stop the servers, because what they
write after the start of the command is not copied. Everything is loaded in one transaction, read back and compared,
and committed only if it is equal. The source is not changed.

An argument is visible to every user in 'ps': leave the password out of the address and set PGPASSWORD.`,
  )
  .action(run)
