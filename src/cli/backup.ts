/** `backup`: writes the whole database into one file, while servers may go on writing. */
import { Command } from '@commander-js/extra-typings'
import { identity } from '../../lib/identity.ts'
import { type Config, readConfig } from '../config.ts'
import { release } from '../release.ts'
import { getSecretFile, readKeptSecret, SECRET_USES } from '../secrets.ts'
import type { Header } from './backup/format.ts'
import { type Snapshot, sumCounts, withSnapshot } from './backup/source.ts'
import { refuseExisting, writeFile, writeStream } from './backup/write-backup.ts'
import { withProgress } from './progress.ts'
import { UsageError } from './usage-error.ts'

const STDOUT = '-'

/** Returns the secret to include, and the sentence about it. @throws Error if there is none */
async function readSecret(config: Config, isIncluded: boolean): Promise<{ secret?: string; note: string }> {
  const file = getSecretFile(config.DATA_DIR)
  if (config.APP_SECRET !== undefined) {
    if (isIncluded)
      throw new Error(
        '--include-secret includes the secret that is kept in DATA_DIR, but APP_SECRET is set, which is never included: keep it apart from the backup',
      )
    return { note: `APP_SECRET is not included: keep it apart from the backup. ${SECRET_USES}` }
  }
  const secret = await readKeptSecret(config.DATA_DIR)
  if (secret === undefined) {
    if (isIncluded) throw new Error(`--include-secret: no secret is kept in ${file}`)
    return { note: `No secret is included: none is kept in ${file}.` }
  }
  if (isIncluded)
    return { secret, note: `The secret that is kept in ${file} is included: protect the backup.` }
  return {
    note: `The secret that is kept in ${file} is not included (--include-secret includes it): keep a copy of it. ${SECRET_USES}`,
  }
}

const createHeader = (
  { kind, migrations, tables, sequences, counts }: Snapshot,
  secret: string | undefined,
): Omit<Header, 'format' | 'version'> => ({
  release,
  created_at: new Date().toISOString(),
  database: kind,
  migrations,
  tables: tables.map(({ name, columns }) => ({
    name,
    columns: columns.map((column) => column.name),
    rows: counts.get(name) ?? 0,
  })),
  sequences,
  ...(secret !== undefined && { app_secret: secret }),
})

async function run(file: string, { includeSecret = false }: { includeSecret?: boolean }): Promise<void> {
  const config = readConfig()
  if (file === STDOUT && process.stdout.isTTY)
    throw new UsageError(
      'A backup is not written to a terminal: name a file, or pipe it into another command',
    )
  if (file !== STDOUT) refuseExisting(file)
  const { secret, note } = await readSecret(config, includeSecret)
  const result = await withSnapshot(config, async (snapshot) => {
    const rows = sumCounts(snapshot.counts)
    const size = await withProgress('rows', rows, async (add) => {
      const counted = async function* () {
        for await (const batch of snapshot.readRows()) {
          yield batch
          add(batch.lines.length)
        }
      }
      const backup = { header: createHeader(snapshot, secret), rows: counted() }
      return file === STDOUT ? writeStream(process.stdout, backup) : writeFile(file, backup)
    })
    return { rows, tables: snapshot.tables.length, size }
  })
  const amount = `${result.rows.toLocaleString('en')} rows of ${result.tables} tables`
  // Standard output has the backup itself, if that was asked for.
  const print = file === STDOUT ? console.error : console.log
  print(
    result.size === undefined
      ? `Wrote ${amount}`
      : `Wrote ${file}: ${amount}, ${Math.ceil(result.size / 1000).toLocaleString('en')} kB`,
  )
  print(note)
}

export const backup = new Command('backup')
  .description('Write the whole database into one file')
  .argument('<file>', "The new file; '-' for standard output. An existing file is not overwritten")
  .option('--include-secret', 'Include the secret that is kept in DATA_DIR. APP_SECRET is never included')
  .addHelpText(
    'after',
    `
Reads one snapshot of DATABASE_URL, while servers may go on writing; without it, of the embedded database in
DATA_DIR, which no running server may have open. The file gets its name when it is complete, and only its owner can
read it. It contains personal data and the hashes of passwords and keys: protect it. Settings are not in it.

'${identity.name} restore' loads the file into an empty database, embedded or PostgreSQL, of this release or a newer one.`,
  )
  .action(run)
