/** What a test changes in its database does not reach the next test, which may get the same database. */
import t from 'tap'
import { type Owner, SERVER, testDatabase } from '../../testing/helpers/database.ts'
import { keepDatabases } from '../../testing/src/kept-databases.ts'

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
const CHANGES: Record<string, [statements: string | readonly string[], query: string]> = {
  'a row': [USER, 'select from users'],
  'a sequence': [
    `select nextval('order_numbers')`,
    `select from pg_sequences where sequencename = 'order_numbers' and last_value is not null`,
  ],
  'an applied migration': [
    'insert into drizzle.__drizzle_migrations (hash, created_at) values (1, 1)',
    'select from drizzle.__drizzle_migrations where created_at = 1',
  ],
  'an applied migration of the packages': [
    'insert into drizzle.__drizzle_migrations_packages (hash, created_at) values (1, 1)',
    'select from drizzle.__drizzle_migrations_packages where created_at = 1',
  ],
  'a setting of the session': [
    `set statement_timeout = '1h'`,
    `select where current_setting('statement_timeout') = '1h'`,
  ],
  'a prepared statement': [
    'prepare one as select 1',
    `select from pg_prepared_statements where name = 'one'`,
  ],
  'a setting of the database': [
    `do 'begin execute format(''alter database %I set work_mem = 123456'', current_database()); end'`,
    'select from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase and d.datname = current_database()',
  ],
  'a table': ['create table extra (a int)', `select where to_regclass('extra') is not null`],
  'a column': [
    'alter table users add column extra int',
    `select from pg_attribute where attrelid = 'users'::regclass and attname = 'extra'`,
  ],
  'a trigger': [
    [
      `create function extra() returns trigger language plpgsql as 'begin return null; end'`,
      'create trigger extra before insert on users for each row execute function extra()',
    ],
    `select from pg_trigger where tgname = 'extra'`,
  ],
  'a function': [
    `create function extra() returns int language sql as 'select 1'`,
    `select from pg_proc where proname = 'extra'`,
  ],
  'an extension': [
    'create extension if not exists btree_gist',
    `select from pg_extension where extname = 'btree_gist'`,
  ],
  'row security': [
    'alter table users enable row level security',
    `select from pg_class where oid = 'users'::regclass and relrowsecurity`,
  ],
  'statistics of a table': [
    [USER, 'analyze users'],
    `select from pg_statistic where starelid = 'users'::regclass`,
  ],
  'a role': ['create role extra', `select from pg_roles where rolname = 'extra'`],
  'a setting of a role': [
    `alter role current_user set work_mem = '123MB'`,
    'select from pg_db_role_setting where setrole <> 0',
  ],
}

for (const [name, [statements, query]] of Object.entries(CHANGES)) {
  const skip = SERVER && /role$/.test(name) ? 'roles are those of the server' : false
  t.test(`${name} is not there in the next test`, { skip }, async (t) => {
    await changeDatabase([])
    await changeDatabase([statements].flat())
    t.same(await (await testDatabase(t)).run(query), [])
  })
}

t.test('a database is given to the next test', async (t) => {
  await changeDatabase([])
  // Databases of a server have names, embedded ones a process each.
  const identify = async (owner: Owner) =>
    (await testDatabase(owner)).run('select current_database() as name, pg_postmaster_start_time() as time')
  const undo: (() => unknown)[] = []
  const first = await identify({ teardown: (teardown) => undo.unshift(teardown) })
  for (const teardown of undo) await teardown()
  t.same(await identify(t), first)
})
