/** The database client works alike on PostgreSQL and PGlite: values, errors, transactions, limits, lost connections. */
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { createDatabase, SERVER, testEmbedded } from '../../testing/helpers/database.ts'
import { startProxy } from '../../testing/helpers/proxy.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import {
  type Database,
  DatabaseUnavailable,
  openDatabase,
  type Queryable,
  SqlError,
} from '../src/client/index.ts'
import { parseAddress } from '../src/client/server/address.ts'
import { ServerConnection } from '../src/client/server/connection.ts'

/** Returns the error of `work` and how long it took, in milliseconds. */
async function failing(work: () => Promise<unknown>): Promise<{ error: unknown; took: number }> {
  const start = performance.now()
  const error = await work().then(
    () => undefined,
    (error: unknown) => error,
  )
  return { error, took: performance.now() - start }
}

const INSERT_VALUES = 'insert into v values ($1, $2, $3, $4, $5, $6, $7, $8, $9)'
const INSERT_USER = 'insert into u values ($1, $2)'
const INSERT_NUMBER = 'insert into n values ($1)'
const readState = async (db: Queryable, pid: unknown) =>
  (await db.run('select state from pg_stat_activity where pid = $1', [Number(pid)]))[0]?.state
const readPid = async (db: Queryable) => (await db.run('select pg_backend_pid() as pid'))[0]?.pid

function behaves(t: Test, open: (t: Test) => Promise<Database>) {
  t.test('values are returned as the interface documents', async (t) => {
    const db = await open(t)
    const [row] =
      await db.run(`select 9007199254740991::int8 as int8, 7::int4 as int4, 1.5::numeric as numeric, 2.5::float8 as float8,
      true as bool, null as nothing, 'é€😀' as text, '2026-01-02 03:04:05.678901+02'::timestamptz as timestamptz,
      '2026-01-02 03:04:05.678901'::timestamp as timestamp, '2026-01-02'::date as date, '{"a": [1, null]}'::jsonb as jsonb,
      '[true]'::json as json, array['a', 'b,"c"'] as texts, array[1, 2]::int8[] as int8s, array['2026-01-02'::date] as dates,
      '0198c0de-0000-7000-8000-000000000000'::uuid as uuid, '1 day 02:00'::interval as interval, count(*) from pg_class`)
    const { count, ...others } = row ?? {}
    t.type(count, 'number')
    t.strictSame(others, {
      ...{ int8: 9007199254740991, int4: 7, numeric: '1.5', float8: 2.5, bool: true, nothing: null },
      ...{
        text: 'é€😀',
        timestamptz: '2026-01-02 01:04:05.678901+00',
        timestamp: '2026-01-02 03:04:05.678901',
      },
      ...{ date: '2026-01-02', jsonb: { a: [1, null] }, json: [true], texts: ['a', 'b,"c"'], int8s: [1, 2] },
      ...{ dates: ['2026-01-02'], uuid: '0198c0de-0000-7000-8000-000000000000', interval: '1 day 02:00:00' },
    })
  })

  t.test('parameters are sent as text and keep their values', async (t) => {
    const db = await open(t)
    await db.run(
      'create table v (id int8, b bool, j jsonb, at timestamptz, day date, n numeric, a text[], raw bytea, f float8)',
    )
    const at = '2026-01-02T03:04:05.678901Z'
    const values = [1, true, '{"x":"\\"é"}', at, '2026-01-02', 1.25, ['a', 'b "\\c'], '\\x00ff', -0.5]
    await db.run(INSERT_VALUES, values)
    await db.run(INSERT_VALUES, Array(9).fill(null))
    const found = await db.run(
      "select id, b, j, at, day, n, a, encode(raw, 'hex') as raw, f from v order by id",
    )
    t.strictSame(found, [
      {
        ...{ id: 1, b: true, j: { x: '"é' }, at: '2026-01-02 03:04:05.678901+00', day: '2026-01-02' },
        ...{ n: '1.25', a: ['a', 'b "\\c'], raw: '00ff', f: -0.5 },
      },
      { id: null, b: null, j: null, at: null, day: null, n: null, a: null, raw: null, f: null },
    ])
    const where = 'select id from v where b = $1 and id = any($2) and j @> $3'
    t.strictSame(await db.run(where, [true, [1, 2], '{}']), [{ id: 1 }])
    t.strictSame(await db.run('update v set b = $1 where id = $2', [false, 1]), [], 'no rows, an empty list')
  })

  t.test('an error has code and table, but neither SQL nor values', async (t) => {
    const db = await open(t)
    await db.run(
      'create table u (email text constraint u_email_key unique, age int constraint u_age check (age > 0))',
    )
    await db.run(INSERT_USER, ['secret@example.com', 1])
    for (const [text, params, expected] of [
      [INSERT_USER, ['secret@example.com', 1], { code: '23505', constraint: 'u_email_key', table: 'u' }],
      [INSERT_USER, ['secret2@example.com', -7], { code: '23514', constraint: 'u_age' }],
      ['select $1::uuid', ['hidden'], { code: '22P02' }],
      ['select $1::text', ['a\0b'], { code: '22021' }],
      ['selec from u', [], { code: '42601' }],
      ['select 1; drop table u', [], { code: '42601' }],
    ] as const) {
      const { error } = await failing(() => db.run(text, params))
      if (!(error instanceof SqlError)) throw error
      t.match(error, { name: 'SqlError', ...expected }, text)
      const names = [...Object.getOwnPropertyNames(error), 'cause', 'detail', 'query', 'params']
      t.notMatch(error.message, /secret|hidden|insert|select/i)
      t.notMatch(JSON.stringify(error, names), /secret|insert into/i, 'what a log may print of it')
    }
    t.strictSame(await db.run('select count(*) from u'), [{ count: 1 }], 'the connection is still in use')
    await t.rejects(db.run('select $1', [...new Array(1)]), TypeError)
  })

  t.test('a transaction is committed completely or not at all', async (t) => {
    const db = await open(t)
    await db.run('create table n (i int primary key deferrable initially deferred)')
    const count = async () => (await db.run('select count(*) from n'))[0]?.count
    t.strictSame(await db.transaction((tx) => tx.run(`${INSERT_NUMBER} returning i`, [1])), [{ i: 1 }])

    const ownError = new Error('mine')
    const insertAnd = (n: number, work: (tx: Queryable) => Promise<unknown>) => async (tx: Queryable) => {
      await tx.run(INSERT_NUMBER, [n])
      await work(tx)
    }
    for (const [name, work, error] of [
      ['an error of the work', insertAnd(2, () => Promise.reject(ownError)), ownError],
      ['a caught error', insertAnd(3, (tx) => tx.run('select 1 / 0').catch(() => {})), { code: '22012' }],
      ['a COMMIT that is refused', insertAnd(1, async () => {}), { code: '23505' }],
    ] as const) {
      t.match((await failing(() => db.transaction(work))).error, error, name)
      t.equal(await count(), 1, name)
    }

    let escaped: (() => Promise<unknown>) | undefined
    await db.transaction(async (tx) => {
      await Promise.all([tx.run(INSERT_NUMBER, [4]), tx.run(INSERT_NUMBER, [5])])
      escaped = () => tx.run(INSERT_NUMBER, [6])
    })
    await t.rejects(async () => escaped?.(), /over/, 'a statement after the end is refused')
    t.equal(await count(), 3)
    t.equal(await db.transaction(async () => 'nothing'), 'nothing', 'a transaction without statements')
    t.match(await db.transaction((tx) => tx.run('show transaction_isolation')), [
      { transaction_isolation: 'read committed' },
    ])
  })

  t.test('a prepared statement survives a change of its table and many other statements', async (t) => {
    const db = await open(t)
    await db.run('create table changing (a int)')
    await db.run('insert into changing values (1)')
    const all = () => db.run('select * from changing')
    t.strictSame(await all(), [{ a: 1 }])
    await db.run("alter table changing add b text default 'new'")
    t.strictSame(await all(), [{ a: 1, b: 'new' }])
    for (let i = 0; i < 1_100; i++) await db.run(`select ${i} as i, $1 as v`, ['x'])
    t.strictSame(await all(), [{ a: 1, b: 'new' }])
    const [row] = await db.run('select count(*) as known from pg_prepared_statements')
    t.ok(Number(row?.known) < 1_001, `${row?.known} statements are prepared`)
    t.strictSame(await db.run('select 7 as i, $1 as v', ['y']), [{ i: 7, v: 'y' }])
    t.strictSame(await db.run('-- nothing'), [])
  })

  t.test('concurrent statements each get their own result', async (t) => {
    const db = await open(t)
    const select = (i: number, on: Queryable) => on.run('select $1::int as i', [i])
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        i % 7 === 0 ? db.transaction((tx) => select(i, tx)) : select(i, db),
      ),
    )
    for (const [i, rows] of answers.entries()) t.strictSame(rows, [{ i }])
  })

  t.test('ping succeeds, and close waits for running statements', async (t) => {
    const db = await open(t)
    await Promise.all([db.ping(1000), db.ping(1000)])
    const running = db.transaction(async (tx) => {
      await tx.run('select 1')
      await wait(100)
      return tx.run('select 2 as two')
    })
    await wait(10)
    const closing = db.close()
    await t.rejects(db.run('select 1'), DatabaseUnavailable)
    t.strictSame(await running, [{ two: 2 }])
    await closing
    await db.close()
    await t.rejects(db.ping(1000), DatabaseUnavailable)
  })
}

t.test('embedded', async (t) => {
  const shared = await testEmbedded(t)
  // The last test closes it.
  behaves(t, async () => {
    await shared.run('drop schema public cascade')
    await shared.run('create schema public')
    return shared
  })
})

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

t.test('server', { skip }, async (t) => {
  const server = SERVER ?? ''
  /** Opens a new database, and another connection to it. */
  const open = async (t: Test, options: Partial<Parameters<typeof openDatabase>[0]> = {}) => {
    const url = await createDatabase(t, server)
    const [db, other] = [await openDatabase({ url, ...options }), await openDatabase({ url, poolSize: 1 })]
    t.teardown(() => Promise.all([db.close(), other.close()]))
    return { db, other, url }
  }
  behaves(t, async (t) => (await open(t, { poolSize: t.name.startsWith('a prepared') ? 1 : 10 })).db)

  t.test("the pool opens at most its size, with the application's name", async (t) => {
    const { db, other } = await open(t, { poolSize: 3 })
    // The address of a database in another schema has a name, see `templates.ts`.
    const { DATABASE_SCHEMA = '' } = process.env
    const name = ['', 'public'].includes(DATABASE_SCHEMA) ? 'resource-api' : DATABASE_SCHEMA
    await db.ping(1000)
    const work = Promise.all(Array.from({ length: 40 }, () => db.run('select pg_sleep(0.02)')))
    // Three, and the one for pings.
    const expected = [{ active: 3, all: 4, named: true }]
    await waitUntil(async () => {
      const seen = await other.run(
        `select count(*) filter (where query like '%pg_sleep%' and state = 'active') as active, count(*) as all,
         bool_and(application_name = $1) as named from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
        [name],
      )
      t.ok(Number(seen[0]?.all) <= 4)
      return isDeepStrictEqual(seen, expected)
    })
    await work
  })

  t.test('a statement that waits too long or in too long a queue is refused', async (t) => {
    const { db } = await open(t, { poolSize: 1, acquireTimeout: 150, maxWaiting: 2 })
    const long = db.run('select pg_sleep(2)')
    const line = [failing(() => db.run('select 1')), failing(() => db.run('select 1'))]
    const beyond = failing(() => db.run('select 1'))
    const first = await Promise.race([...line, beyond])
    t.equal(first, await beyond, 'immediately')
    t.match(first.error, { name: 'DatabaseUnavailable', retryAfter: 2 })
    for (const { error, took } of await Promise.all(line)) {
      t.ok(error instanceof DatabaseUnavailable, 'before the connection is free')
      t.ok(took >= 149, `after 150 ms (${took})`)
    }
    await long
    await db.run('select 1')
  })

  t.test('a statement that exceeds its timeout is canceled by the server', async (t) => {
    const { db } = await open(t, { poolSize: 1, statementTimeout: 100 })
    const { error } = await failing(() => db.run('select pg_sleep(5)'))
    t.match(error, { name: 'DatabaseUnavailable', cause: { code: '57014' } })
    const sleep = "select pg_sleep(0.3)::text = '' as slept"
    const slept = await db.transaction((tx) => tx.run(sleep), { statementTimeout: 0 })
    t.strictSame(slept, [{ slept: true }], 'unless the transaction lifts the limit')
    t.strictSame(await db.run('show statement_timeout'), [{ statement_timeout: '100ms' }])
  })

  t.test('a stalled process does not mistake its own delay for a silent server', async (t) => {
    const { db } = await open(t, { poolSize: 1, statementTimeout: 300 })
    const before = await readPid(db)
    await db.ping(1000)
    const running = db.run('with slow as (select pg_sleep(0.05)) select 1 as one from slow')
    const asked = db.ping(1000)
    await wait(10)
    // Node.js runs its timers next, and reads sockets after them.
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        const until = performance.now() + 2_000
        while (performance.now() < until);
        resolve()
      })
    })
    t.strictSame(await running, [{ one: 1 }])
    await asked
    t.equal(await readPid(db), before, 'the connection is kept')
  })

  t.test('a connection is replaced after its lifetime without an error', async (t) => {
    const { db } = await open(t, { poolSize: 2, lifetime: 20 })
    const pids = new Set<unknown>()
    for (let i = 0; i < 10; i++) {
      pids.add(await readPid(db))
      await wait(20)
    }
    t.ok(pids.size > 2, `${pids.size} connections one after another`)
    await db.transaction(async (tx) => {
      const pid = await readPid(tx)
      await wait(60)
      t.equal(await readPid(tx), pid, 'a transaction keeps its own')
    })
  })

  t.test('a closed connection fails its running statements, and no later ones', async (t) => {
    const { db, other } = await open(t, { poolSize: 1 })
    await db.run('create table cut (i int)')
    const terminate = (pid: unknown) => other.run('select pg_terminate_backend($1)', [Number(pid)])
    const pid = await readPid(db)
    const running = failing(() => db.run('with slow as (select pg_sleep(60)) select from slow'))
    await waitUntil(async () => (await readState(other, pid)) === 'active')
    await terminate(pid)
    const { error } = await running
    t.ok(error instanceof DatabaseUnavailable)
    t.not(await readPid(db), pid, 'the next gets a new connection')

    // The work runs other statements, unaware of it; the last connection is cut just before the commit.
    for (const [pause, others] of [
      [0, [2, 3]],
      [100, [2, 3]],
      [0, []],
    ] as const) {
      const work = db.transaction(async (tx) => {
        const [row] = await tx.run('insert into cut values (1) returning pg_backend_pid() as pid')
        await terminate(row?.pid)
        await wait(pause)
        for (const n of others) await tx.run('insert into cut values ($1)', [n]).catch(() => undefined)
      })
      await t.rejects(work, DatabaseUnavailable, 'a transaction cut in the middle')
      t.strictSame(await db.run('select count(*) from cut'), [{ count: 0 }], 'leaves nothing')
    }

    await terminate(await readPid(db))
    await wait(50)
    t.ok(await readPid(db), 'a connection closed while idle has no effect')
  })

  t.test('a ping waits no longer than it may', async (t) => {
    const { url } = await open(t)
    const proxy = await startProxy(t, url)
    const db = await openDatabase({ url: proxy.url, poolSize: 2 })
    t.teardown(() => db.close())
    await db.ping(1000)
    await proxy.set('silent')
    const { error } = await failing(() => db.ping(300))
    t.match(error, { name: 'DatabaseUnavailable', message: /300 ms/ })
  })

  t.test('an invalid database address is refused with a reason', async (t) => {
    const closed = await startProxy(t, server)
    await closed.set('refuse')
    const admin = await openDatabase({ url: server, poolSize: 1 })
    const latin = `latin_${process.pid}`
    t.teardown(async () => {
      await admin.run(`drop database ${latin} with (force)`)
      await admin.close()
    })
    await admin.run(`create database ${latin} template template0 encoding 'LATIN1' locale 'C'`)
    const at = (pathname: string) => Object.assign(new URL(server), { pathname }).href
    for (const [url, message] of [
      [closed.url, /ECONNREFUSED/],
      [at('no_such_database'), /3D000/],
      ['mysql://root:hunter2@localhost/db', /^(?!.*hunter2).*postgres:/],
      [at(latin), /LATIN1.*UTF8/],
    ] as const) {
      await t.rejects(openDatabase({ url }), { message })
    }
  })
})

t.test('a connection that is abandoned during its start is closed', async (t) => {
  const address = parseAddress('postgres://127.0.0.1:1/postgres')
  const connection = new ServerConnection({ address, statementTimeout: 1_000, lifetime: 60_000 })
  const asked = connection.run('select 1')
  // The socket exists and connects in the next event loop iteration, when it has no listener any more.
  for (let i = 0; i < 100; i++) await undefined
  connection.destroy()
  await t.rejects(asked, DatabaseUnavailable)
  await wait(100)
  await connection.close()
})
