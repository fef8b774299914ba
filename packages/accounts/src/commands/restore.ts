/** `restore`: loads a backup into an empty database and compares the result with the file. */
import { Command } from '@commander-js/extra-typings'
import { jsonOption, printResult } from '@resource-api/cli'
import {
  type BackupFile,
  describeLoad,
  formatRows,
  type Header,
  loadRows,
  readBackup,
} from '@resource-api/cli/commands'
import { identity } from '@resource-api/database'
import { checkMigrations, countAllRows } from '@resource-api/database/backup'
import { work } from '@resource-api/database/tables'
import {
  type Config,
  getSecretFile,
  keepSecret,
  readConfig,
  readKeptSecret,
  SECRET_USES,
} from '@resource-api/http/config'
import { getTableName } from 'drizzle-orm'
import { endRestored } from '../mail/mail-store.ts'

const describe = ({ created_at, release, database }: Header): string =>
  `written ${created_at} by release ${release} from ${database === 'embedded' ? 'an embedded database' : 'a PostgreSQL server'}`

/**
 * Returns the secret that is to be kept in `DATA_DIR`, and the sentence about it.
 * @throws Error if another secret is kept there
 */
async function chooseSecret(
  { APP_SECRET: configured, DATA_DIR: dataDir }: Config,
  included: string | undefined,
): Promise<{ secret?: string; note: string }> {
  const file = getSecretFile(dataDir)
  if (included === undefined)
    return {
      note: `The backup has no secret: set APP_SECRET to the former one, or copy the former file to ${file}. ${SECRET_USES}`,
    }
  if (configured === included) return { note: 'APP_SECRET is the secret of the backup.' }
  if (configured !== undefined)
    return { note: `APP_SECRET differs from the secret of the backup, which was not kept. ${SECRET_USES}` }
  const kept = await readKeptSecret(dataDir)
  if (kept !== undefined && kept !== included)
    throw new Error(
      `The backup includes a secret, but ${file} holds another one: move that file away, or set APP_SECRET`,
    )
  return { secret: included, note: `The secret of the backup is kept in ${file}.` }
}

async function restoreBackup(
  file: string,
  { header, readRows }: BackupFile,
  json: true | undefined,
): Promise<void> {
  checkMigrations(header.migrations, 'The backup')
  const config = readConfig()
  const { secret, note } = await chooseSecret(config, header.app_secret)
  const loaded = await loadRows(config, { ...header, readRows }, async (tx) => {
    if (header.tables.some(({ name }) => name === getTableName(work))) await endRestored(tx)
    if (secret !== undefined) await keepSecret(config.DATA_DIR, secret)
  })
  const texts = ['Restored', `from ${file}, ${describe(header)}`, 'the database with the file'] as const
  printResult(json, { file, ...loaded, note }, [...describeLoad(loaded, texts), note].join('\n'))
}

export const restore = new Command('restore')
  .description('Load a backup into an empty database')
  .argument('<file>', `A file that '${identity.program} backup' wrote`)
  .option('--check', 'Only check that the file is complete and intact; no database is opened')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Checks the file first. Then loads it in one transaction into DATABASE_URL, or without it into the embedded
database in DATA_DIR, which no running server may have open; reads everything back, compares it with the file, and
commits only if it is equal. If the command fails or is stopped, the database stays empty. Mails that waited when the
backup was written are not sent.

The database must have no rows. A backup of an older release is loaded into the tables of that release, and then
the migrations are applied; for that, the database must have no tables of a newer release.`,
  )
  .action(async (file, { check, json }) => {
    const backup = await readBackup(file)
    if (!check) return restoreBackup(file, backup, json)
    const { header, checksums } = backup
    const { created_at, release, database } = header
    const rows = countAllRows(checksums)
    const secret = header.app_secret === undefined ? 'not included' : 'included'
    printResult(
      json,
      { file, rows, created_at, release, database, includes_secret: header.app_secret !== undefined },
      `${file} is complete and intact: ${formatRows(rows)}, ${describe(header)}\nThe secret is ${secret}`,
    )
  })
