/** Commands find the tables where the service reads them: by the search path, in any of its schemas. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { DEFAULT_SCHEMA } from '../../database/src/client/schema.ts'
import { getRecordTable } from '../../database/src/migration-records.ts'
import {
  createEmptyDatabase,
  createMigratedDatabase,
  insertDifficultRows,
  runCommand,
  withDatabaseAt,
} from '../../testing/helpers/command.ts'
import { getSchema, runMigration, SERVER, testFolder } from '../../testing/helpers/database.ts'

const skip =
  SERVER && getSchema(undefined) === DEFAULT_SCHEMA
    ? false
    : 'needs a PostgreSQL server, and the default schema'

const getName = ({ DATABASE_URL = '' }: { DATABASE_URL?: string }) => new URL(DATABASE_URL).pathname.slice(1)

/** Runs statements, in which `DATABASE` stands for the name. */
const execute = (place: Readonly<Record<string, string>>, ...statements: string[]) =>
  withDatabaseAt(place, async (database) => {
    for (const text of statements) await database.run(text.replace('DATABASE', `"${getName(place)}"`))
  })

/** The schema `extra` comes first in the search path, and has no table of the service. */
const PUT_EXTRA_FIRST = ['create schema extra', 'alter database DATABASE set search_path = extra, public']

/** Creates a role that owns nothing and may do what a service needs, and returns settings with it. */
async function createRole(t: Test, place: Awaited<ReturnType<typeof createMigratedDatabase>>) {
  const role = `role_${getName(place)}`
  await execute(
    place,
    `create role ${role} login`,
    `grant select, insert, update, delete on all tables in schema public to ${role}`,
    `grant usage, select on all sequences in schema public to ${role}`,
    `grant usage on schema drizzle to ${role}`,
    `grant select on all tables in schema drizzle to ${role}`,
  )
  t.teardown(() => execute(place, `drop owned by ${role}`, `drop role ${role}`))
  const url = Object.assign(new URL(place.DATABASE_URL ?? ''), { username: role }).href
  return { role, settings: { ...place, DATABASE_URL: url } }
}

const createFile = (t: Test) => join(testFolder(t), 'backup.gz')

/** Applies a migration, and checks that its table and index are in the schema that comes second in the search path. */
const createLater = (t: Test, place: Readonly<Record<string, string>>) =>
  withDatabaseAt(place, async (database) => {
    await runMigration(t, database, ['create table later (id int)', 'create index later_id on later (id)'])
    t.same(await database.run(`select 'later'::regclass::text as name, current_schema() as first`), [
      { name: 'later', first: 'extra' },
    ])
    const select = `select relnamespace::regnamespace::text as schema from pg_class where relname ~ '^later'`
    t.same(await database.run(select), [{ schema: 'public' }, { schema: 'public' }])
  })

test('a backup has the tables of a later schema of the search path', { skip }, async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, insertDifficultRows)
  await execute(
    source,
    ...PUT_EXTRA_FIRST,
    'create table extra.others ()',
    'create table public.notes (id int)',
  )
  const file = createFile(t)
  const wrote = await runCommand(t, ['backup', file], source)
  t.match(wrote, { code: 0, out: /: 4 rows of 20 tables, / }, 'those of public, with one of another owner')

  const target = await createMigratedDatabase(t)
  await execute(target, ...PUT_EXTRA_FIRST)
  t.match(await runCommand(t, ['restore', file], target), { code: 0, out: /^Restored 4 rows from / })
  const again = await runCommand(t, ['restore', file], target)
  t.match(again, { code: 1, err: /The database is not empty \(the table users has rows\)/ })
  const count = 'select count(*) from public.users'
  t.same(await withDatabaseAt(target, (database) => database.run(count)), [{ count: 1 }])

  const empty = await createEmptyDatabase(t)
  await execute(empty, ...PUT_EXTRA_FIRST, 'create table public.users (id int)')
  t.match(
    await runCommand(t, ['restore', file], empty),
    { code: 0 },
    'tables are created in the first schema',
  )
  t.match(await runCommand(t, ['backup', createFile(t)], empty), { code: 0, out: /: 4 rows of 19 tables, / })
})

test('a backup without all tables of the service is an error, and leaves no file', { skip }, async (t) => {
  const source = await createMigratedDatabase(t)
  const file = createFile(t)
  const fails = async (err: RegExp) => {
    t.match(await runCommand(t, ['backup', file], source), { code: 1, err })
    t.notOk(existsSync(file))
  }
  await execute(source, 'create schema extra', 'alter table orders set schema extra')
  await fails(/The database lacks tables of this service \(orders\): check the search_path of the role/)
  await execute(source, 'alter database DATABASE set search_path = extra')
  await fails(/The database lacks tables of this service \(.*users.*\): /)
  await execute(source, 'alter database DATABASE set search_path = drizzle')
  await fails(/The database has no tables of this service: check .* and the search_path of the role/)
})

test('a backup fails instead of leaving out rows that a policy hides', { skip }, async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, insertDifficultRows)
  const { settings } = await createRole(t, source)
  t.match(await runCommand(t, ['backup', createFile(t)], settings), {
    code: 0,
    out: /: 4 rows of 19 tables, /,
  })
  await execute(source, 'alter table users enable row level security')
  const refused = await runCommand(t, ['backup', createFile(t)], settings)
  t.match(refused, { code: 1, err: /row-level security|42501/ })
})

test('new tables are created where those before them are', { skip }, async (t) => {
  const place = await createMigratedDatabase(t)
  await execute(place, ...PUT_EXTRA_FIRST)
  t.equal((await runCommand(t, 'doctor', { ...place, APP_SECRET: 'x'.repeat(32) })).code, 0)
  await createLater(t, place)
})

test('those of the first migration of an application too', { skip }, async (t) => {
  const place = await createMigratedDatabase(t)
  await execute(place, ...PUT_EXTRA_FIRST, `delete from ${getRecordTable(DEFAULT_SCHEMA, 'application')}`)
  await createLater(t, place)
})
