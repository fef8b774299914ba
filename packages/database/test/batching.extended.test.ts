/** Statement batching: short concurrent statements share a connection and a packet, each with its own result or error. */
import t, { type Test } from 'tap'
import { openDatabase, SERVER, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { startStatementRecorder } from '../../testing/helpers/statements.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'
const QUICK = { canBatch: true }
const numbers = (count: number, first = 0) => Array.from({ length: count }, (_, i) => first + i)
/** The results of statements that return their number. */
const rowsOf = (ns: number[]) => ns.map((n) => [{ n }])

/** Resolves when the statements of this event loop iteration are sent. */
const sent = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

/** Opens a database behind a recorder, with a table, and another connection to it. */
async function open(t: Test, poolSize: number, acquireTimeout = 2000) {
  const { url = '' } = await testDatabaseUrl(t)
  const wire = await startStatementRecorder(t, url)
  const database = await openDatabase({ url: wire.url, poolSize, acquireTimeout })
  const other = await openDatabase({ url, poolSize: 1 })
  t.teardown(() => Promise.all([database.close(), other.close()]))
  await database.run('create table written (n int primary key)')
  const read = (n: number) => database.run('select $1::int as n', [n], QUICK)
  const write = (n: number) => database.run('insert into written values ($1) returning n', [n], QUICK)
  const readWritten = () => other.run('select n from written where n >= 0 order by n')
  // Prepared on the connection that a batch takes.
  await Promise.all(numbers(8).map(read))
  await write(-1)
  return { database, other, wire, read, write, readWritten }
}

/** Adds a trigger to the table that sleeps for so many seconds before matching rows are inserted. */
const delayWrites = async (
  { other }: Awaited<ReturnType<typeof open>>,
  seconds: number,
  condition: string,
) => {
  await other.run(
    `create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(${seconds}); return new; end'`,
  )
  await other.run(
    `create trigger slow before insert on written for each row when (${condition}) execute function slow()`,
  )
}

t.test('eight reads of one loop iteration are one packet with eight results', { skip }, async (t) => {
  const { read, wire, database } = await open(t, 1)
  for (const [count, packets] of [
    [8, 1],
    [40, 5],
  ] as const) {
    wire.take()
    t.same(await Promise.all(numbers(count).map(read)), rowsOf(numbers(count)))
    t.equal(wire.take().packets, packets)
  }
  await database.close()
  await t.rejects(read(1), { name: 'DatabaseUnavailable' }, 'a closed database refuses them')
})

t.test('four writes of one loop iteration are one packet', { skip }, async (t) => {
  const { write, readWritten, wire } = await open(t, 1)
  wire.take()
  t.same(await Promise.all(numbers(8).map(write)), rowsOf(numbers(8)))
  t.equal(wire.take().packets, 2)
  t.equal((await readWritten()).length, 8)
})

t.test('more than eight reads are distributed over free connections', { skip }, async (t) => {
  const { read, database } = await open(t, 4)
  const all = Promise.all(numbers(24).map(read))
  await sent()
  t.equal(database.getLoad().used, 3)
  await all
})

t.test('no write is sent twice when its connection closes', { skip }, async (t) => {
  const opened = await open(t, 1)
  const { database, other, write, readWritten } = opened
  await delayWrites(opened, 30, 'new.n = 2')
  const held = database.run('select pg_sleep(0.1)')
  const all = Promise.allSettled([write(1), write(1), write(2), write(3)])
  await held
  const end = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event = 'PgSleep' and query like 'insert%'`
  while ((await other.run(end)).length === 0) await sent()
  const lost = { reason: { name: 'DatabaseUnavailable' } }
  t.match(await all, [{ status: 'fulfilled' }, { reason: { code: '23505' } }, lost, lost])
  t.same(await readWritten(), [{ n: 1 }])
  t.same(await write(4), [{ n: 4 }], 'the next is served')
})

t.test('a write that waits too long is refused and not executed later', { skip }, async (t) => {
  const { database, write, readWritten } = await open(t, 1, 100)
  const held = database.run('select pg_sleep(0.5)')
  await t.rejects(write(1), { name: 'DatabaseUnavailable' })
  await held
  t.same(await readWritten(), [])
})
