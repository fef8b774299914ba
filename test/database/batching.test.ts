/**
 * Statement batching: short concurrent statements share a connection and a packet, each with its own result
 * or error.
 */
import t, { type Test } from 'tap'
import { openDatabase, SERVER, testDatabaseUrl } from '../helpers/database.ts'
import { startStatementRecorder } from '../helpers/statements.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'
const QUICK = { canBatch: true }
const numbers = (count: number, first = 0) => Array.from({ length: count }, (_, i) => first + i)
/** The results of statements that return their number. */
const rowsOf = (ns: number[]) => ns.map((n) => [{ n }])

/** When what was asked in this turn of the event loop is on its way. */
const sent = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

/** Opens a database behind a recorder, and another connection to it, on which nothing waits. */
async function opened(t: Test, options: { poolSize?: number } = {}) {
  const { url = '' } = await testDatabaseUrl(t)
  const wire = await startStatementRecorder(t, url)
  const database = await openDatabase({ url: wire.url, ...options })
  const other = await openDatabase({ url, poolSize: 1 })
  t.teardown(() => Promise.all([database.close(), other.close()]))
  const answer = (n: number) => database.run('select $1::int as n', [n], QUICK)
  // Prepared on the one connection that a batch takes.
  await Promise.all(numbers(8).map(answer))
  return { database, other, answer, wire }
}

t.test(
  'eight statements of one event loop turn are one packet, and each gets its own result',
  { skip },
  async (t) => {
    const { answer, wire } = await opened(t, { poolSize: 1 })
    wire.take()
    t.same(await Promise.all(numbers(8).map(answer)), rowsOf(numbers(8)))
    t.equal(wire.take().packets, 1)
    t.same(await Promise.all(numbers(40).map(answer)), rowsOf(numbers(40)))
    t.equal(wire.take().packets, 5)
  },
)

t.test('more than eight statements are distributed over free connections', { skip }, async (t) => {
  const { answer, database } = await opened(t, { poolSize: 4 })
  const all = Promise.all(numbers(24).map(answer))
  await sent()
  t.equal(database.getLoad().used, 3)
  await all
})

t.test('reads on a connection that was closed are sent again', { skip }, async (t) => {
  const { answer, other } = await opened(t, { poolSize: 1 })
  await other.run(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name = 'resource-api'`,
  )
  t.same(await Promise.all(numbers(5).map(answer)), rowsOf(numbers(5)))
})

t.test('a closed database refuses batched statements', { skip }, async (t) => {
  const { answer, database } = await opened(t)
  await database.close()
  const refused = { status: 'rejected', reason: { name: 'DatabaseUnavailable' } }
  t.match(await Promise.allSettled([answer(1), answer(2)]), [refused, refused])
})

/** A table of one's own, and how to write to it. */
async function writing(t: Test, options: { poolSize?: number } = {}) {
  const open = await opened(t, options)
  await open.database.run('create table written (n int primary key)')
  const write = (n: number) => open.database.run('insert into written values ($1) returning n', [n], QUICK)
  await write(-1)
  return { ...open, write }
}

/** Repeats six concurrent writes until they need at most a number of connections. */
async function settled({ database, write }: Awaited<ReturnType<typeof writing>>, connections: number) {
  for (let round = 0; round < 100; round++) {
    const all = Promise.all(numbers(6, 6 * round).map(write))
    await sent()
    const used = database.getLoad().used
    await all
    if (used === connections) return true
  }
  return false
}

t.test('fast writes of one turn share a connection', { skip }, async (t) => {
  const open = await writing(t, { poolSize: 3 })
  t.ok(await settled(open, 1))
  // A busy machine makes one slow now and then, after which they are spread until they are quick again.
  let packets = 0
  for (let first = 1000; packets !== 1 && first < 1400; first += 8) {
    open.wire.take()
    t.same(await Promise.all(numbers(8, first).map(open.write)), rowsOf(numbers(8, first)))
    packets = open.wire.take().packets
  }
  t.equal(packets, 1)
})

t.test('slow writes are distributed over the connections', { skip }, async (t) => {
  const open = await writing(t, { poolSize: 3 })
  t.ok(await settled(open, 1))
  await open.database.run(
    'create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.005); return new; end $$',
  )
  await open.database.run('create trigger slow before insert on written for each row execute function slow()')
  await open.database.run('delete from written')
  t.ok(await settled(open, 3))
  await open.database.run('drop trigger slow on written')
  await open.database.run('delete from written')
  t.ok(await settled(open, 1), 'until they are quick again')
})

t.test('waiting writes share the connections that become free', { skip }, async (t) => {
  const { database, write, wire } = await writing(t, { poolSize: 2 })
  const held = [database.run('select pg_sleep(0.2)'), database.run('select pg_sleep(0.2)')]
  const all = Promise.all(numbers(8).map(write))
  await sent()
  t.equal(database.getLoad().waiting, 8)
  await Promise.race(held)
  wire.take()
  t.same(await all, rowsOf(numbers(8)))
  const { packets } = wire.take()
  t.ok(packets <= 6, `${packets} packets for eight, each statement prepared on two connections`)
  t.same(await database.run('select count(*) from written'), [{ count: 9 }])
})

t.test('a rejected write does not fail the others of its batch', { skip }, async (t) => {
  const { database, write } = await writing(t, { poolSize: 1 })
  const held = database.run('select pg_sleep(0.1)')
  const all = await Promise.allSettled([write(1), write(1), write(2)])
  await held
  t.match(all, [{ status: 'fulfilled' }, { reason: { code: '23505' } }, { status: 'fulfilled' }])
  t.same(await database.run('select n from written where n > 0 order by n'), [{ n: 1 }, { n: 2 }])
})

t.test('no write is sent twice when its connection closes', { skip }, async (t) => {
  const { database, other, write } = await writing(t, { poolSize: 1 })
  await other.run(
    'create function held() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$',
  )
  await other.run(
    'create trigger held before insert on written for each row when (new.n = 2) execute function held()',
  )
  const holds = database.run('select pg_sleep(0.1)')
  const all = Promise.allSettled([write(1), write(2), write(3)])
  await holds
  const end = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event = 'PgSleep' and query like 'insert%'`
  while ((await other.run(end)).length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.match(await all, [
    { status: 'fulfilled' },
    { reason: { name: 'DatabaseUnavailable' } },
    { reason: { name: 'DatabaseUnavailable' } },
  ])
  t.same(await other.run('select n from written where n > 0'), [{ n: 1 }])
  t.same(await write(4), [{ n: 4 }], 'and the next is served')
})

t.test('a write that waits too long is refused and not executed later', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, poolSize: 1, acquireTimeout: 100 })
  t.teardown(() => database.close())
  await database.run('create table written (n int primary key)')
  const held = database.run('select pg_sleep(0.5)')
  const write = database.run('insert into written values (1)', [], QUICK)
  await t.rejects(write, { name: 'DatabaseUnavailable' })
  await held
  t.same(await database.run('select n from written'), [])
})
