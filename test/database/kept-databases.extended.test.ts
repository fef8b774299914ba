/** What a test changes in its database does not reach the next test, which may get the same database. */
import t from 'tap'
import { type Owner, SERVER, testDatabase } from '../helpers/database.ts'
import { keepDatabases } from '../helpers/kept-databases.ts'

t.teardown(keepDatabases())

/** Runs statements in a database of its own, as a test would, and then gives it back. */
async function changeDatabase(statements: readonly string[]): Promise<void> {
  const undo: (() => unknown)[] = []
  const owner: Owner = { teardown: (teardown) => undo.unshift(teardown) }
  const database = await testDatabase(owner)
  for (const statement of statements) await database.run(statement)
  for (const teardown of undo) await teardown()
}

const USER = `insert into users (id, name, email, search) values (gen_random_uuid(), 'a', 'a@example.com', 'a')`

/** A change, and a query that returns a row for it. */
const CHANGES: Record<string, { statements: string[]; query: string; isOfServer?: boolean }> = {
  'a row': { statements: [USER], query: 'select from users' },
  'a sequence': {
    statements: [`select nextval('order_numbers')`],
    query: `select from pg_sequences where sequencename = 'order_numbers' and last_value is not null`,
  },
  'an applied migration': {
    statements: ['insert into drizzle.__drizzle_migrations (hash, created_at) values (1, 1)'],
    query: 'select from drizzle.__drizzle_migrations where created_at = 1',
  },
  'a setting of the session': {
    statements: [`set statement_timeout = '1h'`],
    query: `select where current_setting('statement_timeout') = '1h'`,
  },
  'a prepared statement': {
    statements: ['prepare one as select 1'],
    query: `select from pg_prepared_statements where name = 'one'`,
  },
  'a temporary table': {
    statements: ['create temp table pass (a int)'],
    query: `select where to_regclass('pass') is not null`,
  },
  'an advisory lock': {
    statements: ['select pg_advisory_lock(1)'],
    query: `select from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())`,
  },
  'a setting of the database': {
    statements: [
      `do 'begin execute format(''alter database %I set work_mem = 123456'', current_database()); end'`,
    ],
    query:
      'select from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase and d.datname = current_database()',
  },
  'a table': {
    statements: ['create table extra (a int)'],
    query: `select where to_regclass('extra') is not null`,
  },
  'a column': {
    statements: ['alter table users add column extra int'],
    query: `select from pg_attribute where attrelid = 'users'::regclass and attname = 'extra'`,
  },
  'a default': {
    statements: [`alter table users alter column name set default 'none'`],
    query: `select from pg_attribute where attrelid = 'users'::regclass and attname = 'name' and atthasdef`,
  },
  'a dropped table': {
    statements: ['drop table posts'],
    query: `select where to_regclass('posts') is null`,
  },
  'an index': {
    statements: ['create index extra on users (name)'],
    query: `select where to_regclass('extra') is not null`,
  },
  'a constraint': {
    statements: [`alter table users add constraint extra check (name <> 'b')`],
    query: `select from pg_constraint where conname = 'extra'`,
  },
  'a foreign key of a dropped table': {
    statements: ['create table extra (id uuid references users)', USER],
    query: `select from pg_trigger where tgrelid = 'users'::regclass and tgconstrrelid <> 0 and tgname !~ 'RI_'`,
  },
  'a trigger': {
    statements: [
      `create function extra() returns trigger language plpgsql as 'begin return null; end'`,
      'create trigger extra before insert on users for each row execute function extra()',
    ],
    query: `select from pg_trigger where tgname = 'extra'`,
  },
  'a disabled trigger': {
    statements: ['alter table users disable trigger all'],
    query: `select from pg_trigger where tgrelid = 'users'::regclass and tgenabled = 'D'`,
  },
  'a function': {
    statements: [`create function extra() returns int language sql as 'select 1'`],
    query: `select from pg_proc where proname = 'extra'`,
  },
  'a type': {
    statements: [`create type extra as enum ('a')`],
    query: `select from pg_type where typname = 'extra'`,
  },
  'an extension': {
    statements: ['create extension if not exists btree_gist'],
    query: `select from pg_extension where extname = 'btree_gist'`,
  },
  'a schema': {
    statements: ['create schema extra'],
    query: `select from pg_namespace where nspname = 'extra'`,
  },
  'row security': {
    statements: ['alter table users enable row level security'],
    query: `select from pg_class where oid = 'users'::regclass and relrowsecurity`,
  },
  'a view': {
    statements: ['create view extra as select 1'],
    query: `select where to_regclass('extra') is not null`,
  },
  'statistics of a table': {
    statements: [USER, 'analyze users'],
    query: `select from pg_statistic where starelid = 'users'::regclass`,
  },
  'a privilege': {
    statements: ['grant select on users to public'],
    query: `select from pg_class where oid = 'users'::regclass and relacl is not null`,
  },
  'a role': {
    statements: ['create role extra'],
    query: `select from pg_roles where rolname = 'extra'`,
    isOfServer: true,
  },
  'a setting of a role': {
    statements: [`alter role current_user set work_mem = '123MB'`],
    query: 'select from pg_db_role_setting where setrole <> 0',
    isOfServer: true,
  },
}

for (const [name, { statements, query, isOfServer = false }] of Object.entries(CHANGES)) {
  const skip = isOfServer && SERVER ? 'roles are those of the server' : false
  t.test(`${name} is not there in the next test`, { skip }, async (t) => {
    await changeDatabase([])
    await changeDatabase(statements)
    const next = await testDatabase(t)
    t.same(await next.run(query), [])
  })
}

t.test(
  'a database is given to the next test',
  { skip: SERVER ? 'its process is that of the test' : false },
  async (t) => {
    await changeDatabase([])
    const readStart = async (owner: Owner) =>
      (await (await testDatabase(owner)).run('select pg_postmaster_start_time()::text as time'))[0]?.time
    const undo: (() => unknown)[] = []
    const first = await readStart({ teardown: (teardown) => undo.unshift(teardown) })
    for (const teardown of undo) await teardown()
    t.equal(await readStart(t), first)
  },
)
