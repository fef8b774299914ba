/** A first start that is interrupted leaves no partial state and no lock, and the next start completes. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import { countPendingMigrations } from '../../../database/src/migrate.ts'
import { createDatabase, openDatabase, SERVER, testFolder } from '../../../testing/helpers/database.ts'
import { startModule, startServer } from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const SECRET = { APP_SECRET: 'test-secret-test-secret-test-secret-test', LOG_LEVEL: 'silent' }

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run this'

t.test('SIGTERM during a migration on PostgreSQL', { skip }, async (t) => {
  const url = await createDatabase(t, SERVER ?? '')
  const direct: Database = await openDatabase({ url, poolSize: 2 })
  t.teardown(() => direct.close())
  // Each table takes an hour to make, from posts on.
  await direct.run(`create function public.dawdle() returns event_trigger language plpgsql as $$ begin
    if to_regclass('posts') is not null then perform pg_sleep(3600); end if; end $$`)
  await direct.run('create event trigger slow on ddl_command_end execute function public.dawdle()')
  const others = async () => {
    const [row] = await direct.run(
      `select count(*) as all, count(*) filter (where wait_event = 'PgSleep') as asleep from pg_stat_activity
       where datname = current_database() and application_name = 'resource-api' and pid <> pg_backend_pid()
       and backend_type = 'client backend' and query not like '%pg_stat_activity%'`,
    )
    return { all: Number(row?.all), asleep: Number(row?.asleep) }
  }
  const idle = (await others()).all

  const settings = { ...SECRET, PORT: '0', DATABASE_URL: url, DATA_DIR: testFolder(t) }
  const { child, ended } = startModule(t, 'server.ts', settings)
  await waitUntil(async () => (await others()).asleep === 1)
  const left = await countPendingMigrations(direct)
  child.kill('SIGTERM')
  t.same(await ended, { code: 143, signal: null }, 'it does not wait for the migration')
  await waitUntil(async () => (await others()).all <= idle)
  const tables = await direct.run("select to_regclass('posts') as posts")
  t.strictSame(tables, [{ posts: null }], 'of the migration that ran nothing is there')
  t.equal(await countPendingMigrations(direct), left)

  await direct.run('drop event trigger slow')
  const again = await startServer(t, settings)
  t.equal((await fetch(`${again.url}/readyz`)).status, 200)
  t.equal(await countPendingMigrations(direct), 0, 'the next start goes on')
})

t.test('SIGTERM during the first start of an embedded database', async (t) => {
  const DATA_DIR = testFolder(t)
  const settings = { ...SECRET, PORT: '0', DATA_DIR }
  const moments = [
    () => existsSync(join(DATA_DIR, 'postgres.new', 'PG_VERSION')),
    () => existsSync(join(DATA_DIR, 'postgres', 'postmaster.pid')),
  ]
  for (const moment of moments) {
    const { child, ended, output } = startModule(t, 'server.ts', settings)
    await waitUntil(moment)
    child.kill('SIGTERM')
    // By its own hand, or by the system's where it came before the hand was there.
    const { code, signal } = await ended
    t.ok(code === 143 || signal === 'SIGTERM', `${code} ${signal} ${output.err}`)
  }
  const { url } = await startServer(t, settings)
  t.equal((await fetch(`${url}/readyz`)).status, 200)
})
