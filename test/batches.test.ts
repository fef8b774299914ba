/** Quick statements that share a connection: together in one packet, each with an answer or an error of its own. */
import { connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { openDatabase } from '../plugins/database/index.ts'
import { SERVER, testDatabaseUrl } from './helpers/database.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'
const QUICK = { quick: true }

/** A way to the database that counts what goes over it. */
async function counted(t: Test, target: string) {
  const to = new URL(target)
  const seen = { packets: 0 }
  const server = createServer((near) => {
    const far = connect(Number(to.port || 5432), to.hostname)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
    near.on('data', () => {
      seen.packets += 1
    })
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(typeof address === 'object' && address ? address.port : 0)
  t.teardown(() => server.close())
  return { seen, url: url.href }
}

async function opened(t: Test, options: { poolSize?: number } = {}) {
  const { url = '' } = await testDatabaseUrl(t)
  const way = await counted(t, url)
  const database = await openDatabase({ url: way.url, ...options })
  t.teardown(() => database.close())
  const answer = (n: number) => database.run('select $1::int as n', [n], QUICK)
  // Prepared on the one connection that a batch takes.
  await Promise.all(Array.from({ length: 8 }, (_, n) => answer(n)))
  return { database, answer, seen: way.seen }
}

t.test('eight of one turn are one packet, and each gets its own answer', { skip }, async (t) => {
  const { answer, seen } = await opened(t, { poolSize: 1 })
  seen.packets = 0
  const rows = await Promise.all(Array.from({ length: 8 }, (_, n) => answer(n)))
  t.same(
    rows,
    Array.from({ length: 8 }, (_, n) => [{ n }]),
  )
  t.equal(seen.packets, 1)
  seen.packets = 0
  t.same(
    await Promise.all(Array.from({ length: 40 }, (_, n) => answer(n))),
    Array.from({ length: 40 }, (_, n) => [{ n }]),
  )
  t.equal(seen.packets, 5)
})

t.test('more than eight are spread over the connections that are free', { skip }, async (t) => {
  const { answer, database } = await opened(t, { poolSize: 4 })
  const most = { used: 0 }
  const all = Promise.all(Array.from({ length: 24 }, (_, n) => answer(n)))
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  most.used = database.load?.().used ?? 0
  await all
  t.equal(most.used, 3)
})

t.test('one that fails takes no other with it', { skip }, async (t) => {
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

t.test('on a connection that was ended meanwhile they are sent once more', { skip }, async (t) => {
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

t.test('a closed database refuses them as it refuses all', { skip }, async (t) => {
  const { answer, database } = await opened(t)
  await database.close()
  const all = await Promise.allSettled([answer(1), answer(2)])
  t.match(all, [
    { status: 'rejected', reason: { name: 'DatabaseUnavailable' } },
    { status: 'rejected', reason: { name: 'DatabaseUnavailable' } },
  ])
})

/** A table of one's own, and how to write to it. */
async function writing(t: Test, options: { poolSize?: number } = {}) {
  const open = await opened(t, options)
  await open.database.run('create table written (n int primary key)')
  const write = (n: number) => open.database.run('insert into written values ($1) returning n', [n], QUICK)
  await write(-1)
  return { ...open, write }
}

t.test('writes have a connection each while there are free ones', { skip }, async (t) => {
  const { database, write } = await writing(t, { poolSize: 3 })
  const all = Promise.all([write(1), write(2), write(3)])
  t.equal(database.load?.().used, 3)
  t.same(await all, [[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
})

t.test('those that wait share the connections that come free, fairly', { skip }, async (t) => {
  const { database, write, seen } = await writing(t, { poolSize: 2 })
  const held = [database.run('select pg_sleep(0.2)'), database.run('select pg_sleep(0.2)')]
  const all = Promise.all(Array.from({ length: 8 }, (_, n) => write(n)))
  t.equal(database.load?.().waiting, 8)
  await Promise.race(held)
  seen.packets = 0
  t.same(
    await all,
    Array.from({ length: 8 }, (_, n) => [{ n }]),
  )
  t.ok(seen.packets <= 6, `${seen.packets} packets for eight, each statement prepared on two connections`)
  t.same(await database.run('select count(*) from written'), [{ count: 9 }])
})

t.test('a write that is refused takes no other with it', { skip }, async (t) => {
  const { database, write } = await writing(t, { poolSize: 1 })
  const held = database.run('select pg_sleep(0.1)')
  const all = await Promise.allSettled([write(1), write(1), write(2)])
  await held
  t.match(all, [{ status: 'fulfilled' }, { reason: { code: '23505' } }, { status: 'fulfilled' }])
  t.same(await database.run('select n from written where n > 0 order by n'), [{ n: 1 }, { n: 2 }])
})

t.test('on a connection that ends amid them none is sent twice', { skip }, async (t) => {
  const { database, write } = await writing(t, { poolSize: 1 })
  const other = await openDatabase({ url: (await testDatabaseUrlOf(database)) ?? '' })
  t.teardown(() => other.close())
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

t.test('who waits too long is refused, and not written later', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, poolSize: 1, wait: 100 })
  t.teardown(() => database.close())
  await database.run('create table written (n int primary key)')
  const held = database.run('select pg_sleep(0.5)')
  const write = database.run('insert into written values (1)', [], QUICK)
  await t.rejects(write, { name: 'DatabaseUnavailable' })
  await held
  t.same(await database.run('select n from written'), [])
})

/** The same database by the address that the server itself tells. */
async function testDatabaseUrlOf(database: Awaited<ReturnType<typeof openDatabase>>) {
  const [row] = await database.run('select current_database() as name')
  const url = new URL(SERVER ?? '')
  url.pathname = `/${row?.name}`
  return url.href
}
