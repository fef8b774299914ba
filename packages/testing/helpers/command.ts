/** Runs a command of `resource-api` in this process, since starting another takes longer, and compares databases of backups. */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { run } from '../../../src/commands.ts'
import type { Database } from '../../database/src/client/index.ts'
import {
  createDatabase,
  type Owner,
  openDatabase,
  SERVER,
  testDatabaseUrl,
  testFolder,
  withSchema,
} from './database.ts'

export interface CommandResult {
  code: number
  out: string
  err: string
}

/**
 * @param args the words of the command line; a text is split at its spaces
 * @param settings the only environment variables
 * @param input standard input
 */
export async function runCommand(
  t: Pick<Test, 'capture' | 'intercept'>,
  args: string | readonly string[],
  settings: NodeJS.ProcessEnv = {},
  input = '',
): Promise<CommandResult> {
  const [out, err] = [t.capture(console, 'log'), t.capture(console, 'error')]
  const env = t.intercept(process, 'env', { value: withSchema(settings) })
  const stdin = t.intercept(process, 'stdin', { value: Readable.from([input]) })
  const code = await run(typeof args === 'string' ? args.split(' ').filter(Boolean) : args)
  const text = (calls: typeof out) =>
    calls()
      .map((call) => `${call.args[0]}\n`)
      .join('')
  const result = { code, out: text(out), err: text(err) }
  for (const undo of [out, err, env, stdin]) undo.restore()
  return result
}

export type Settings = Readonly<Record<string, string>>

/** Returns the settings of a new database without tables. */
export async function createEmptyDatabase(t: Owner, server = SERVER): Promise<Settings> {
  return { DATA_DIR: testFolder(t), ...(server && { DATABASE_URL: await createDatabase(t, server) }) }
}

/** Returns the settings of a new database with empty tables. On PGlite, this is much faster than one without tables. */
export async function createMigratedDatabase(t: Owner): Promise<Settings> {
  const { url, dataDir = testFolder(t) } = await testDatabaseUrl(t)
  return { DATA_DIR: dataDir, ...(url && { DATABASE_URL: url }) }
}

export const openAt = (settings: Settings): Promise<Database> =>
  openDatabase({ url: settings.DATABASE_URL, dataDir: settings.DATA_DIR })

export async function withDatabaseAt<T>(
  settings: Settings,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openAt(settings)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

/** Returns all rows of all tables as PostgreSQL's text, and the next numbers of the sequences. */
export async function readEverything(database: Database): Promise<Record<string, unknown>> {
  const names = await database.run(
    `select table_name::text as name from information_schema.tables where table_schema = current_schema() and not starts_with(table_name, '__') order by 1`,
  )
  const everything: Record<string, unknown> = {}
  for (const { name } of names)
    everything[String(name)] = await database.run(`select t::text as row from "${name}" t order by 1`)
  everything.order_numbers = await database.run(
    'select case when is_called then last_value + 1 else last_value end as next from order_numbers',
  )
  return everything
}

/** Inserts rows whose values are easily changed on the way through a file. */
export async function insertDifficultRows(database: Database): Promise<void> {
  const id = '01a1fcbf-e8cd-763e-b2da-b0ddc4606552'
  const text =
    'back\\slash \\N \\u0041 "quotes" \'single\' {a,b} (c) tab\t line\nfeed \u2028 \u0085 é e\u0301 \u{1f600} null'
  await database.run(
    `insert into users (id, created_at, updated_at, revision, name, email, search)
     values ($1, '2026-11-21 06:16:39.074001+00', '0001-01-01 00:00:00.000009+00', 9007199254740991, $2, 'null', '')`,
    [id, text],
  )
  await database.run(
    `insert into sessions (id, user_id, refresh_hash, rotations, expires_at, ends_at, ip)
     values ($1, $1, '', array['2026-11-21 06:16:39.123456+00', null]::timestamptz[], 'infinity', '-infinity', null)`,
    [id],
  )
  await database.run(
    `insert into orders (id, user_id, items, currency, total_amount, shipping_address, note)
     values ($1, $1, $2, '', -9007199254740991, 'null', null)`,
    [id, JSON.stringify([{ name: text, quantity: 1.5, deep: { list: [null, true, ''] } }])],
  )
  await database.run('insert into posts (id, user_id, title, body) values ($1, $1, $2, $3)', [
    id,
    'NULL',
    text.repeat(2_000),
  ])
}

/** Changes the lines of a backup and computes its last checksum again. */
export function editBackup(file: string, edit: (lines: string[]) => string[]): void {
  const lines = gunzipSync(readFileSync(file)).toString().split('\n').slice(0, -1)
  const edited = edit(lines.slice(0, -1))
  const sha256 = createHash('sha256')
    .update(edited.map((line) => `${line}\n`).join(''))
    .digest('hex')
  const trailer = { ...JSON.parse(lines.at(-1) ?? ''), sha256 }
  writeFileSync(file, gzipSync([...edited, JSON.stringify(trailer), ''].join('\n')))
}
