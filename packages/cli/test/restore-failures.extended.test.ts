/** A restore that fails or is killed leaves the database empty, and a killed backup no file under its name. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Test, test } from 'tap'
import type { Database } from '../../database/src/client/index.ts'
import {
  createMigratedDatabase,
  editBackup,
  insertDifficultRows,
  openAt,
  runCommand,
  type Settings,
  withDatabaseAt,
} from '../../testing/helpers/command.ts'
import { SERVER, testFolder } from '../../testing/helpers/database.ts'
import { startModule } from '../../testing/helpers/process.ts'
import { waitUntil } from '../../testing/helpers/time.ts'

const USERS = 5_000

/** Inserts so many users that their backup and their restore take a while. */
const insertUsers = (database: Database) =>
  database.run(
    `insert into users (id, name, email, search)
     select gen_random_uuid(), md5(n::text), n::text, md5(n::text) from generate_series(1, ${USERS}) n`,
  )

async function countUsers(settings: Settings): Promise<unknown> {
  const [row] = await withDatabaseAt(settings, (database) => database.run('select count(*) from users'))
  return row?.count
}

test('a file that is damaged or of a newer release is refused before the database is opened', async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, insertDifficultRows)
  const folder = testFolder(t)
  const good = join(folder, 'good')
  t.equal((await runCommand(t, ['backup', good], source)).code, 0)
  const bytes = readFileSync(good)
  const damaged = join(folder, 'damaged')
  const settings = { DATA_DIR: join(folder, 'data') }
  const edit = (change: (lines: string[]) => string[]) => {
    writeFileSync(damaged, bytes)
    editBackup(damaged, change)
    return readFileSync(damaged)
  }
  const editHeader = (change: object) =>
    edit(([header = '', ...lines]) => [JSON.stringify({ ...JSON.parse(header), ...change }), ...lines])
  const flip = (position: number) => bytes.with(position, (bytes[position] ?? 0) ^ 4)
  const flipped = /^restore failed: The (file|header of the backup) is (damaged|incomplete|not)/
  const truncated = /^restore failed: The file is (incomplete|not a backup)/
  for (const [name, content, message] of [
    ['a flipped bit', flip(bytes.length >> 1), flipped],
    ['a flipped bit of the checksum', flip(bytes.length - 8), flipped],
    ['no content', '', truncated],
    ['a few bytes', bytes.subarray(0, 10), truncated],
    ['half a file', bytes.subarray(0, bytes.length >> 1), truncated],
    ['a missing byte', bytes.subarray(0, -1), truncated],
    ['no compression', 'select 1;\n', 'The file is damaged, or is not a backup'],
    ['another format', gzipSync('{"users":[]}\n'), 'The file is not a backup of this service'],
    [
      'a newer format',
      editHeader({ version: 2 }),
      'version 2 of the format, and this release reads version 1',
    ],
    ['a newer release', editHeader({ migrations: [1, 4e12] }), 'The backup is of a newer release'],
    ['a lost row', edit((lines) => lines.toSpliced(2, 1)), 'The file is damaged: its checksum differs'],
  ] as const) {
    writeFileSync(damaged, content)
    t.match(await runCommand(t, ['restore', damaged], settings), { code: 1, err: message }, name)
    t.notOk(existsSync(settings.DATA_DIR), `${name}: no database is created`)
  }
  const missing = await runCommand(t, ['restore', join(folder, 'none')], settings)
  t.match(missing, { code: 1, err: /^restore failed: ENOENT/ })
})

test('rows that the database refuses leave it empty, and a good backup can be restored then', async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, insertDifficultRows)
  const folder = testFolder(t)
  const [good, bad] = [join(folder, 'good'), join(folder, 'bad')]
  t.equal((await runCommand(t, ['backup', good], source)).code, 0)
  writeFileSync(bad, readFileSync(good))
  // The sequences are set after all rows are inserted, and this one has a minimum of 1.
  editBackup(bad, ([header = '', ...lines]) => {
    const edited = JSON.parse(header)
    edited.sequences[0].next = '0'
    return [JSON.stringify(edited), ...lines]
  })
  t.equal((await runCommand(t, ['restore', '--check', bad])).code, 0, 'its checksums are right')
  const target = await createMigratedDatabase(t)
  const refused = await runCommand(t, ['restore', bad], target)
  t.match(refused, { code: 1, err: /^restore failed: PostgreSQL refused a statement: 22003/ })
  t.equal(await countUsers(target), 0)
  const restored = await runCommand(t, ['restore', good], target)
  t.equal(restored.code, 0, restored.err)
  const again = await runCommand(t, ['restore', good], target)
  t.match(again, { code: 1, err: /not empty \(the table users has rows\), and nothing is overwritten/ })
})

/** Starts a command, and kills it when `isStarted` is true or it has ended. */
async function kill(
  t: Test,
  args: string[],
  settings: Settings,
  isStarted: () => boolean | Promise<boolean>,
) {
  const { child, ended } = startModule(t, 'cli.ts', settings, args)
  await waitUntil(async () => child.exitCode !== null || (await isStarted()))
  child.kill('SIGKILL')
  await ended
}

test('kill -9 leaves no backup under its name, and an empty database', async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, insertUsers)
  const folder = testFolder(t)
  const file = join(folder, 'backup')
  await kill(t, ['backup', file], source, () => readdirSync(folder).some((name) => name.endsWith('.part')))
  if (existsSync(file)) t.equal((await runCommand(t, ['restore', '--check', file])).code, 0)
  const next = join(folder, 'next')
  const written = await runCommand(t, ['backup', next], source)
  t.equal(written.code, 0, written.err)

  const target = await createMigratedDatabase(t)
  const probe = SERVER ? await openAt(target) : undefined
  t.teardown(() => probe?.close())
  const wal = join(target.DATA_DIR ?? '', 'postgres/pg_wal')
  const start = SERVER ? 0 : readdirSync(wal).length
  await kill(t, ['restore', next], target, async () => {
    if (!probe) return readdirSync(wal).length > start + 2
    const rows = await probe.run(
      `select 1 from pg_stat_activity where datname = current_database() and query like 'insert into%'`,
    )
    return rows.length > 0
  })
  // On a busy machine the restore may be complete before it is killed.
  const kept = await countUsers(target)
  t.ok(kept === 0 || kept === USERS, `all or nothing, not ${kept} users`)
  const restored = await runCommand(t, ['restore', next], target)
  t.equal(restored.code, kept === 0 ? 0 : 1, restored.err)
  t.equal(await countUsers(target), USERS)
})
