/** `backup`: writes the whole database into one file, while servers may go on writing. */
import { Command } from '@commander-js/extra-typings'
import { identity, release } from '@resource-api/database'
import { describeReference } from '@resource-api/database/backup'
import {
  type Config,
  getSecretFile,
  readConfig,
  readKeptSecret,
  SECRET_USES,
} from '@resource-api/http/config'
import { refuseExisting, writeFile, writeStream } from './backup/backup-file.ts'
import { formatRows, sumRows, withSnapshot } from './backup/transfer.ts'
import { jsonOption } from './json-option.ts'
import { withProgress } from './progress.ts'
import { UsageError } from './usage-error.ts'

const STDOUT = '-'

/** Returns the secret to include, and the sentence about it. @throws Error if there is none */
async function readSecret(config: Config, isIncluded: boolean): Promise<{ secret?: string; note: string }> {
  const file = getSecretFile(config.DATA_DIR)
  const isSet = config.APP_SECRET !== undefined
  const secret = isSet ? undefined : await readKeptSecret(config.DATA_DIR)
  if (isIncluded && isSet)
    throw new Error(
      '--include-secret includes the secret that is kept in DATA_DIR, but APP_SECRET is set, which is never included: keep it apart from the backup',
    )
  if (isIncluded && secret === undefined) throw new Error(`--include-secret: no secret is kept in ${file}`)
  if (isSet) return { note: `APP_SECRET is not included: keep it apart from the backup. ${SECRET_USES}` }
  if (secret === undefined) return { note: `No secret is included: none is kept in ${file}.` }
  if (isIncluded)
    return { secret, note: `The secret that is kept in ${file} is included: protect the backup.` }
  return {
    note: `The secret that is kept in ${file} is not included (--include-secret includes it): keep a copy of it. ${SECRET_USES}`,
  }
}

interface Options {
  includeSecret?: boolean
  strict?: boolean
  json?: true
}

async function run(file: string, { includeSecret = false, strict = false, json }: Options): Promise<void> {
  const config = readConfig()
  if (file === STDOUT && process.stdout.isTTY)
    throw new UsageError(
      'A backup is not written to a terminal: name a file, or pipe it into another command',
    )
  if (file !== STDOUT) refuseExisting(file)
  const { secret, note } = await readSecret(config, includeSecret)
  const { rows, amount, size, warnings } = await withSnapshot(
    config,
    async ({ kind, migrations, tables, sequences, references, readRows }) => {
      const outer = references.map(
        (reference) => `${describeReference(reference)}, whose rows are not in the backup`,
      )
      if (strict && outer.length > 0) throw new Error(`--strict: ${outer.join('; ')}`)
      const created_at = new Date().toISOString()
      const app_secret = secret === undefined ? {} : { app_secret: secret }
      const header = { release, created_at, database: kind, migrations, tables, sequences, ...app_secret }
      const total = sumRows(tables)
      const written = await withProgress('rows', total, async (add) => {
        const countRows = async function* () {
          for await (const batch of readRows()) {
            yield batch
            add(batch.lines.length)
          }
        }
        const backup = { header, rows: countRows() }
        return file === STDOUT ? writeStream(process.stdout, backup) : writeFile(file, backup)
      })
      const what = `${formatRows(total)} of ${tables.length} tables`
      return { rows: total, amount: what, size: written, warnings: outer }
    },
  )
  // Standard output has the backup itself, if that was asked for.
  const print = file === STDOUT ? console.error : console.log
  if (json) return print(JSON.stringify({ file, rows, bytes: size, warnings, note }))
  for (const warning of warnings) console.error(`Warning: ${warning}: it cannot be restored without them`)
  print(
    size === undefined
      ? `Wrote ${amount}`
      : `Wrote ${file}: ${amount}, ${Math.ceil(size / 1000).toLocaleString('en')} kB`,
  )
  print(note)
}

export const backup = new Command('backup')
  .description('Write the whole database into one file')
  .argument('<file>', "The new file; '-' for standard output. An existing file is not overwritten")
  .option('--include-secret', 'Include the secret that is kept in DATA_DIR. APP_SECRET is never included')
  .option('--strict', 'Write no backup if rows refer to tables that are not in it')
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
Reads one snapshot of DATABASE_URL, or without it of the embedded database in DATA_DIR, while servers may go on
writing. The file gets its name when it is complete, and only its owner can read it. It contains personal data and
the hashes of passwords and keys: protect it. Settings are not in it.

Only tables in the schema of the service are in it: each foreign key to another table is a warning, since the backup
cannot be restored without the rows of that table.

'${identity.program} restore' loads the file into an empty database, embedded or PostgreSQL, of this release or a newer one.`,
  )
  .action(run)
