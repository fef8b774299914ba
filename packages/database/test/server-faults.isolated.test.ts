/** When PostgreSQL or the network to it fails, requests get 503 in time, and service resumes when the fault ends. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { recordMessages } from '../../testing/helpers/app.ts'
import { openDatabase, SERVER } from '../../testing/helpers/database.ts'
import { startProxy } from '../../testing/helpers/proxy.ts'
import { createDeferred } from '../../testing/helpers/time.ts'
import {
  assertAllRefused,
  assertNothingLost,
  assertRecovery,
  assertUnavailable,
  createFaultyApp,
  createProduct,
  type FaultyApp,
  holdAllConnections,
  listProducts,
  POOL_SIZE,
  STATEMENT_TIMEOUT_MS,
  startRefusingServer,
  waitUntilServed,
} from './faulty-app.ts'

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

const END_CONNECTIONS = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name = 'resource-api' and pid <> pg_backend_pid()`

/** Adds a trigger to products that raises this SQLSTATE, so many times. Returns what removes it. */
async function raise({ direct }: FaultyApp, code: string, times = 1_000_000): Promise<() => Promise<void>> {
  await direct.run('create sequence raised')
  await direct.run(`create function refuse() returns trigger language plpgsql as $$ begin
    if nextval('raised') <= ${times} then
      raise exception 'could not extend file "base/1/2": hunter2' using errcode = '${code}';
    end if;
    return new; end $$`)
  await direct.run('create trigger refuse before insert on products for each row execute function refuse()')
  return async () => {
    await direct.run('drop function refuse cascade')
    await direct.run('drop sequence raised')
  }
}

async function recovers(t: Test, app: FaultyApp): Promise<void> {
  await assertRecovery(t, app)
  await assertNothingLost(t, app)
}

t.test('the network to the database', { skip }, async (t) => {
  const app = await createFaultyApp(t)
  const { proxy, direct } = app
  await waitUntilServed(app)

  const refuseWith = (code: string, message: string) => async () => {
    proxy.lead(await startRefusingServer(t, code, message))
  }
  for (const [fault, begin] of [
    ...(['refuse', 'hangUp', 'reset'] as const).map((mode) => [mode, () => proxy.set(mode)] as const),
    ['57P03', refuseWith('57P03', 'the database system is starting up')],
    ['53300', refuseWith('53300', 'sorry, too many clients already')],
    ['28P01', refuseWith('28P01', 'password authentication failed for user "hunter2"')],
    ['3D000', refuseWith('3D000', 'database "hunter2" does not exist')],
  ] as const) {
    t.test(`connections fail: ${fault}`, async (t) => {
      await begin()
      for (const _ of [1, 2]) await assertAllRefused(t, app, { within: 1_500 })
      if (/\d/.test(fault)) t.match(app.logs.join(''), fault, 'the log says why')
      proxy.lead(proxy.target)
      await proxy.set('pass')
      await recovers(t, app)
    })
  }

  t.test('a slow network within the timeouts serves every request', async (t) => {
    proxy.slow({ latency: 15, jitter: 15 })
    const requests = [listProducts(app), createProduct(app), listProducts(app), app.anybody.get('/readyz')]
    t.match(await Promise.all(requests), [{ status: 200 }, { status: 201 }, { status: 200 }, { status: 200 }])
    proxy.slow({ latency: 0 })
  })

  t.test('an outage without requests does not fail the next request', async (t) => {
    const stale = recordMessages(t, 'resource-api:database:renewed')
    await Promise.all(Array.from({ length: POOL_SIZE }, () => app.database.run('select pg_sleep(0.05)')))
    // Idle connections are pinged before use, and these do not respond: new connections pass.
    await wait(1_100)
    proxy.strand()
    t.equal((await listProducts(app)).status, 200, 'the ping gives up before the request does')
    await waitUntilServed(app)
    t.match(stale, [{ why: 'stale' }])
    await proxy.set('pass')
    await recovers(t, app)
  })

  t.test('the connection breaks in the middle of a reply', async (t) => {
    for (const bytes of [0, 1, 30, 90]) {
      proxy.resetAfter(bytes)
      const replies = await Promise.all([listProducts(app), createProduct(app)])
      for (const reply of replies) assertUnavailable(t, reply)
      await proxy.set('pass')
      await recovers(t, app)
    }
  })

  t.test('a failover leads to another server', async (t) => {
    const elsewhere = await startProxy(t, proxy.target)
    await proxy.set('refuse')
    await assertAllRefused(t, app, { within: 1_500 })
    proxy.lead(elsewhere.url)
    await proxy.set('pass')
    await recovers(t, app)
    t.ok(elsewhere.connections() > 0)
    proxy.lead(proxy.target)
  })

  t.test('every connection ended by an administrator', async (t) => {
    await Promise.all(Array.from({ length: POOL_SIZE }, () => app.database.run('select pg_sleep(0.05)')))
    await direct.run(END_CONNECTIONS)
    // A write that was sent before its connection's end could be read is in its middle.
    while (proxy.open() > 0) await wait(1)
    const pairs = Array.from({ length: POOL_SIZE }, () =>
      Promise.all([listProducts(app), createProduct(app)]),
    )
    for (const pair of await Promise.all(pairs))
      t.match(pair, [{ status: 200 }, { status: 201 }], 'no client notices')
    await assertNothingLost(t, app)
  })
})

// In parallel, because each waits for timeouts.
t.test('a silent network to the database', { skip, jobs: 4 }, async (t) => {
  // The statement limit and its grace, a new connection's limit, and the wait for one.
  const within = STATEMENT_TIMEOUT_MS + 1_000 + 2_000 + 2_000 + 300
  for (const mode of ['silent', 'deaf', 'mute', 'slow'] as const) {
    const app = await createFaultyApp(t)
    await waitUntilServed(app)
    t.test(`neither connections nor answers: ${mode}`, { buffered: true }, async (t) => {
      // There and back, a reply takes longer than the statement limit and its grace.
      if (mode === 'slow') app.proxy.slow({ latency: 2_000, jitter: 200 })
      else await app.proxy.set(mode)
      for (const _ of [1, 2]) await assertAllRefused(t, app, { within })
      app.proxy.slow({ latency: 0 })
      await app.proxy.set('pass')
      await recovers(t, app)
    })
  }
})

t.test('the database', { skip }, async (t) => {
  const app = await createFaultyApp(t)
  const { direct, proxy } = app
  await waitUntilServed(app)
  const writes = { requests: [createProduct], ready: true }

  for (const [code, name] of [
    ['53100', 'a full disk'],
    ['53200', 'lack of memory'],
    ['55P03', 'a lock that is not available'],
    ['58030', 'an I/O error'],
  ] as const) {
    t.test(`${name} (${code}) fails the affected requests only`, async (t) => {
      const mend = await raise(app, code)
      await assertAllRefused(t, app, { ...writes, within: 1_500 })
      t.equal((await listProducts(app)).status, 200)
      await mend()
      await recovers(t, app)
    })
  }

  for (const code of ['40001', '40P01']) {
    t.test(`a retryable error (${code}) is retried three times, then the client gets 503`, async (t) => {
      const tries = recordMessages(t, 'resource-api:database:retry')
      const enough = await raise(app, code, 3)
      t.equal((await createProduct(app)).status, 201, 'the fourth try succeeds')
      t.strictSame(
        tries,
        [1, 2, 3].map((attempt) => ({ code, attempt })),
      )
      await enough()
      tries.length = 0
      const never = await raise(app, code)
      assertUnavailable(t, await createProduct(app))
      t.equal(tries.length, 3)
      await never()
      await recovers(t, app)
    })
  }

  t.test('after a real deadlock both transactions succeed', async (t) => {
    await direct.run('create table pair (id int primary key, n int default 0)')
    await direct.run('insert into pair values (1), (2)')
    const tries = recordMessages(t, 'resource-api:database:retry')
    const patient = await openDatabase({ url: proxy.url, poolSize: 2 })
    t.teardown(() => patient.close())
    const bothHaveOne = createDeferred()
    let begun = 0
    const both = (...ids: [number, number]) =>
      patient.transaction(async (tx) => {
        for (const id of ids) {
          await tx.run('update pair set n = n + 1 where id = $1', [id])
          // The first time, each has its first row before either locks its second.
          begun += 1
          if (begun === 2) bothHaveOne.resolve()
          await bothHaveOne.promise
        }
      })
    await Promise.all([both(1, 2), both(2, 1)])
    t.strictSame(await direct.run('select n from pair'), [{ n: 2 }, { n: 2 }])
    t.match(tries, [{ code: '40P01' }])
  })

  t.test('a statement that exceeds its timeout (57014), or waits for a lock, is canceled', async (t) => {
    await direct.transaction(async (tx) => {
      await tx.run('lock table products in access exclusive mode')
      await assertAllRefused(t, app, { within: 2 * STATEMENT_TIMEOUT_MS + 3_000, ready: true })
    })
    await recovers(t, app)
  })

  t.test('a read-only server (25006) rejects writes, and reads continue', async (t) => {
    const name = new URL(proxy.target).pathname.slice(1)
    await direct.run(`alter database ${name} set default_transaction_read_only = on`)
    await direct.run(END_CONNECTIONS)
    await holdAllConnections(app)
    await assertAllRefused(t, app, { ...writes, within: 1_500 })
    t.equal((await listProducts(app)).status, 200)
    // The server closes no connection: the client replaces connections to a server that rejects writes.
    const admin = await openDatabase({ url: proxy.target, poolSize: 1 })
    await admin.transaction(async (tx) => {
      await tx.run('set transaction read write')
      await tx.run(`alter database ${name} reset default_transaction_read_only`)
    })
    await admin.close()
    await recovers(t, app)
  })
})
