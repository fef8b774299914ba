/** Quick reads share a connection and a packet; each statement, read or write, has its own answer or error. */
import t, { type Test } from 'tap'
import { openDatabase } from '../../drizzle/client/index.ts'
import { SERVER, testDatabaseUrl } from '../helpers/database.ts'
import { startStatementRecorder } from '../helpers/statement-recorder.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'
const QUICK = { isQuickRead: true }

async function opened(t: Test, options: { poolSize?: number } = {}) {
  const { url = '' } = await testDatabaseUrl(t)
  const wire = await startStatementRecorder(t, url)
  const database = await openDatabase({ url: wire.url, ...options })
  t.teardown(() => database.close())
  const answer = (n: number) => database.run('select $1::int as n', [n], QUICK)
  // Prepared on the one connection that a batch takes.
  await Promise.all(Array.from({ length: 8 }, (_, n) => answer(n)))
  return { database, answer, wire }
}

t.test(
  'eight statements of one event loop turn are one packet, and each gets its own result',
  { skip },
  async (t) => {
    const { answer, wire } = await opened(t, { poolSize: 1 })
    wire.take()
    const rows = await Promise.all(Array.from({ length: 8 }, (_, n) => answer(n)))
    t.same(
      rows,
      Array.from({ length: 8 }, (_, n) => [{ n }]),
    )
    t.equal(wire.take().packets, 1)
    wire.take()
    t.same(
      await Promise.all(Array.from({ length: 40 }, (_, n) => answer(n))),
      Array.from({ length: 40 }, (_, n) => [{ n }]),
    )
    t.equal(wire.take().packets, 5)
  },
)

t.test('more than eight statements are distributed over free connections', { skip }, async (t) => {
  const { answer, database } = await opened(t, { poolSize: 4 })
  const most = { used: 0 }
  const all = Promise.all(Array.from({ length: 24 }, (_, n) => answer(n)))
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  most.used = database.getLoad().used
  await all
  t.equal(most.used, 3)
})

t.test('a failing statement does not fail the others of its batch', { skip }, async (t) => {
  const { answer, database } = await opened(t)
  const [before, bad, after] = await Promise.allSettled([
    answer(1),
    database.run('select 1 / $1::int as n', [0], QUICK),
    answer(2),
  ])
  t.match(before, { status: 'fulfilled', value: [{ n: 1 }] })
  t.match(bad, { status: 'rejected', reason: { code: '22012' } })
  t.match(after, { status: 'fulfilled', value: [{ n: 2 }] })
})

t.test('reads on a connection that was closed are sent again', { skip }, async (t) => {
  const { answer, database } = await opened(t, { poolSize: 1 })
  const other = await openDatabase({ url: (await testDatabaseUrlOf(database)) ?? '' })
  t.teardown(() => other.close())
  await other.run(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name = 'resource-api'`,
  )
  const rows = await Promise.all(Array.from({ length: 5 }, (_, n) => answer(n)))
  t.same(
    rows,
    Array.from({ length: 5 }, (_, n) => [{ n }]),
  )
})

t.test('a closed database refuses batched statements', { skip }, async (t) => {
  const { answer, database } = await opened(t)
  await database.close()
  const all = await Promise.allSettled([answer(1), answer(2)])
  t.match(all, [
    { status: 'rejected', reason: { name: 'DatabaseUnavailable' } },
    { status: 'rejected', reason: { name: 'DatabaseUnavailable' } },
  ])
})

/** A database with a table of its own, and a function that writes to it. */
async function openForWriting(t: Test, options: { poolSize?: number } = {}) {
  const open = await opened(t, options)
  await open.database.run('create table written (n int primary key)')
  const write = (n: number) => open.database.run('insert into written values ($1) returning n', [n])
  await write(-1)
  return { ...open, write }
}

t.test('a rejected write does not fail concurrent writes', { skip }, async (t) => {
  const { database, write } = await openForWriting(t, { poolSize: 1 })
  const held = database.run('select pg_sleep(0.1)')
  const all = await Promise.allSettled([write(1), write(1), write(2)])
  await held
  t.match(all, [
    { status: 'fulfilled', value: [{ n: 1 }] },
    { reason: { code: '23505' } },
    { status: 'fulfilled', value: [{ n: 2 }] },
  ])
  t.same(await database.run('select n from written where n > 0 order by n'), [{ n: 1 }, { n: 2 }])
})

t.test('no write is sent twice when its connection closes', { skip }, async (t) => {
  const { database, write } = await openForWriting(t, { poolSize: 1 })
  const other = await openDatabase({ url: (await testDatabaseUrlOf(database)) ?? '' })
  t.teardown(() => other.close())
  await other.run(
    'create function held() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$',
  )
  await other.run(
    'create trigger held before insert on written for each row when (new.n = 2) execute function held()',
  )
  const all = Promise.allSettled([write(1), write(2), write(3)])
  const end = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event = 'PgSleep' and query like 'insert%'`
  while ((await other.run(end)).length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.match(await all, [
    { status: 'fulfilled', value: [{ n: 1 }] },
    { reason: { name: 'DatabaseUnavailable' } },
    { status: 'fulfilled', value: [{ n: 3 }] },
  ])
  t.same(await other.run('select n from written where n > 0 order by n'), [{ n: 1 }, { n: 3 }])
})

t.test(
  'a write that waits too long is refused and not executed later',
  {
    skip,
  },
  async (t) => {
    const { url = '' } = await testDatabaseUrl(t)
    const database = await openDatabase({ url, poolSize: 1, acquireTimeout: 100 })
    t.teardown(() => database.close())
    await database.run('create table written (n int primary key)')
    const held = database.run('select pg_sleep(0.5)')
    const write = database.run('insert into written values (1)')
    await t.rejects(write, { name: 'DatabaseUnavailable' })
    await held
    t.same(await database.run('select n from written'), [])
  },
)

/** Opens the same database by the address that the server reports. */
async function testDatabaseUrlOf(database: Awaited<ReturnType<typeof openDatabase>>) {
  const [row] = await database.run('select current_database() as name')
  const url = new URL(SERVER ?? '')
  url.pathname = `/${row?.name}`
  return url.href
}
