/**
 * The database client works alike on PostgreSQL and PGlite: values, errors, transactions, limits and lost
 * connections.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type Database, DatabaseUnavailable, openDatabase, SqlError } from '../../drizzle/client/index.ts'
import { parseAddress } from '../../drizzle/client/server/address.ts'
import { ServerConnection } from '../../drizzle/client/server/connection.ts'
import { createDatabase, SERVER } from '../helpers/database.ts'
import { startProxy } from '../helpers/proxy.ts'
import { getRunningTime } from '../helpers/running-time.ts'

/** tap's type of the `t` of a test. */
type Test = Parameters<Parameters<typeof t.test>[0]>[0]

/** Returns an address that refuses connections. */
async function getClosedAddress(t: Test): Promise<string> {
  const proxy = await startProxy(t, 'postgres://127.0.0.1:1/postgres')
  await proxy.set('refuse')
  return proxy.url
}

/** The error of `work` and how long it took, in milliseconds. */
async function failing(work: () => Promise<unknown>): Promise<{ error: unknown; took: number }> {
  const start = performance.now()
  const error = await work().then(
    () => undefined,
    (error: unknown) => error,
  )
  return { error, took: performance.now() - start }
}

function behaves(t: Test, open: (t: Test) => Promise<Database>) {
  t.test('values are returned as the interface documents', async (t) => {
    const db = await open(t)
    const [row] =
      await db.run(`select 9007199254740991::int8 as int8, 7::int4 as int4, 1.5::numeric as numeric,
      2.5::float8 as float8, true as bool, null as nothing, 'é€😀' as text, current_date = current_date::text::date as same,
      '2026-01-02 03:04:05.678901+02'::timestamptz as timestamptz, '2026-01-02 03:04:05.678901'::timestamp as timestamp,
      '2026-01-02'::date as date, '{"a": [1, null]}'::jsonb as jsonb, '[true]'::json as json,
      array['a', 'b,"c"'] as texts, array[1, 2]::int8[] as int8s, array['2026-01-02'::date] as dates,
      '0198c0de-0000-7000-8000-000000000000'::uuid as uuid, '1 day 02:00'::interval as interval`)
    t.strictSame(row, {
      int8: 9007199254740991,
      int4: 7,
      numeric: '1.5',
      float8: 2.5,
      bool: true,
      nothing: null,
      text: 'é€😀',
      same: true,
      timestamptz: '2026-01-02 01:04:05.678901+00',
      timestamp: '2026-01-02 03:04:05.678901',
      date: '2026-01-02',
      jsonb: { a: [1, null] },
      json: [true],
      texts: ['a', 'b,"c"'],
      int8s: [1, 2],
      dates: ['2026-01-02'],
      uuid: '0198c0de-0000-7000-8000-000000000000',
      interval: '1 day 02:00:00',
    })
    const [count] = await db.run('select count(*) from pg_type where typname = $1', ['text'])
    t.strictSame(count, { count: 1 }, 'count(*) is a number')
  })

  t.test('parameters are sent as text and keep their values', async (t) => {
    const db = await open(t)
    await db.run(`create table v (id int8, b bool, j jsonb, at timestamptz, day date, n numeric, a text[], raw bytea,
      f float8)`)
    const values = [
      1,
      true,
      '{"x":"\\"é"}',
      '2026-01-02T03:04:05.678901Z',
      '2026-01-02',
      1.25,
      '{a,"b c"}',
      '\\x00ff',
      -0.5,
    ]
    await db.run('insert into v values ($1, $2, $3, $4, $5, $6, $7, $8, $9)', values)
    await db.run(
      'insert into v values ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
      values.map(() => null),
    )
    t.strictSame(
      await db.run("select id, b, j, at, day, n, a, encode(raw, 'hex') as raw, f from v order by id"),
      [
        {
          id: 1,
          b: true,
          j: { x: '"é' },
          at: '2026-01-02 03:04:05.678901+00',
          day: '2026-01-02',
          n: '1.25',
          a: ['a', 'b c'],
          raw: '00ff',
          f: -0.5,
        },
        { id: null, b: null, j: null, at: null, day: null, n: null, a: null, raw: null, f: null },
      ],
    )
    t.strictSame(
      await db.run('select id from v where b = $1 and id = any($2) and j @> $3', [true, '{1,2}', '{}']),
      [{ id: 1 }],
    )
    t.strictSame(await db.run('update v set b = $1 where id = $2', [false, 1]), [], 'no rows, an empty list')
  })

  t.test('an error has code and table, but neither SQL nor values', async (t) => {
    const db = await open(t)
    await db.run(
      'create table u (email text constraint u_email_key unique, age int constraint u_age check (age > 0))',
    )
    await db.run('insert into u values ($1, $2)', ['secret@example.com', 1])
    const { error } = await failing(() => db.run('insert into u values ($1, $2)', ['secret@example.com', 1]))
    t.ok(error instanceof SqlError)
    t.match(error, { code: '23505', constraint: 'u_email_key', table: 'u', name: 'SqlError' })
    const { error: check } = await failing(() =>
      db.run('insert into u values ($1, $2)', ['secret2@example.com', -7]),
    )
    t.match(check, { code: '23514', constraint: 'u_age' })
    const { error: cast } = await failing(() => db.run('select $1::uuid', ['hidden']))
    t.match(cast, { code: '22P02' })
    const { error: nul } = await failing(() => db.run('select $1::text', ['a\0b']))
    t.match(nul, { code: '22021' })
    const { error: syntax } = await failing(() => db.run('selec from u'))
    t.match(syntax, { code: '42601' })
    const { error: two } = await failing(() => db.run('select 1; drop table u'))
    t.match(two, { code: '42601' }, 'one statement at a time')
    for (const each of [error, check, cast, nul, syntax]) {
      if (!(each instanceof Error)) throw each
      t.notMatch(each.message, /secret|hidden|insert|select/i)
    }
    for (const each of [error, check]) {
      const seen = JSON.stringify(each, [
        ...Object.getOwnPropertyNames(each),
        'cause',
        'detail',
        'query',
        'params',
      ])
      t.notMatch(seen, /secret|insert/i, 'what a log may print of it')
    }
    t.strictSame(await db.run('select count(*) from u'), [{ count: 1 }], 'and the connection goes on')
    await t.rejects(db.run('select $1', [...new Array(1)]), TypeError, 'undefined is a mistake of ours')
  })

  t.test('a transaction is committed completely or not at all', async (t) => {
    const db = await open(t)
    await db.run('create table n (i int primary key deferrable initially deferred)')
    const count = async () => (await db.run('select count(*) from n'))[0]?.count
    const insert = 'insert into n values ($1)'

    t.equal(
      await db.transaction(async (tx) => (await tx.run(`${insert} returning i`, [1]))[0]?.i),
      1,
      'its result',
    )
    t.equal(await count(), 1)

    const ownError = new Error('mine')
    const { error } = await failing(() =>
      db.transaction(async (tx) => {
        await tx.run(insert, [2])
        throw ownError
      }),
    )
    t.equal(error, ownError, 'the error of the work comes out as it is')
    t.equal(await count(), 1)

    const { error: swallowed } = await failing(() =>
      db.transaction(async (tx) => {
        await tx.run(insert, [3])
        await tx.run('select 1 / 0').catch(() => undefined)
      }),
    )
    t.match(swallowed, { code: '22012' }, 'a failed statement fails the whole, though swallowed')
    t.equal(await count(), 1)

    const { error: late } = await failing(() => db.transaction((tx) => tx.run(insert, [1])))
    t.match(late, { code: '23505' }, 'a COMMIT that is refused')
    t.equal(await count(), 1)

    let escaped: (() => Promise<unknown>) | undefined
    await db.transaction(async (tx) => {
      await Promise.all([tx.run(insert, [4]), tx.run(insert, [5])])
      escaped = () => tx.run(insert, [6])
    })
    await t.rejects(async () => escaped?.(), /over/, 'after its end, a transaction takes nothing more')
    t.equal(await count(), 3)
    t.equal(await db.transaction(async () => 'nothing'), 'nothing', 'one without statements')
    t.strictSame(await db.transaction((tx) => tx.run('show transaction_isolation')), [
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
    for (let i = 0; i < 1100; i++) await db.run(`select ${i} as i, $1 as v`, ['x'])
    t.strictSame(await all(), [{ a: 1, b: 'new' }])
    t.strictSame(await db.run('select 7 as i, $1 as v', ['y']), [{ i: 7, v: 'y' }])
    t.strictSame(await db.run('-- nothing'), [])
  })

  t.test('concurrent statements each get their own result', async (t) => {
    const db = await open(t)
    const answers = await Promise.all(
      Array.from({ length: 300 }, async (_, i) =>
        i % 7 === 0
          ? (await db.transaction((tx) => tx.run('select $1::int as i', [i])))[0]?.i
          : (await db.run('select $1::int as i', [i]))[0]?.i,
      ),
    )
    t.strictSame(
      answers,
      answers.map((_, i) => i),
    )
  })

  t.test('ping succeeds, and close waits for running statements', async (t) => {
    const db = await open(t)
    await Promise.all([db.ping(1000), db.ping(1000)])
    const running = db.transaction(async (tx) => {
      await tx.run('select 1')
      await wait(100)
      return (await tx.run('select 2 as two'))[0]?.two
    })
    await wait(10)
    const closing = db.close()
    await t.rejects(db.run('select 1'), DatabaseUnavailable, 'what comes later is refused')
    t.equal(await running, 2)
    await closing
    await db.close()
    await t.rejects(db.ping(1000), DatabaseUnavailable)
  })
}

t.test('embedded', async (t) => {
  const shared = openDatabase({})
  t.teardown(async () => (await shared).close())
  behaves(t, async (t) => {
    if (t.name.startsWith('ping')) return openDatabase({})
    const db = await shared
    await db.run('drop schema public cascade')
    await db.run('create schema public')
    return db
  })
})

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

t.test('server', { skip }, async (t) => {
  const server = SERVER ?? ''
  /** A database of the test's own, and a second look into it. */
  const open = async (t: Test, options: Partial<Parameters<typeof openDatabase>[0]> = {}) => {
    const url = await createDatabase(t, server)
    const db = await openDatabase({ url, ...options })
    t.teardown(() => db.close())
    return { db, url }
  }
  behaves(t, async (t) => (await open(t)).db)

  t.test("the pool opens at most its size, with the application's name", async (t) => {
    const { db, url } = await open(t, { poolSize: 3 })
    const other = await openDatabase({ url, poolSize: 1 })
    t.teardown(() => other.close())
    await db.ping(1000)
    const work = Promise.all(Array.from({ length: 40 }, () => db.run('select pg_sleep(0.02)')))
    let most = 0
    for (let i = 0; i < 10; i++) {
      const [seen] = await other.run(
        `select count(*) filter (where query like '%pg_sleep%' and state = 'active') as active, count(*) as all,
         bool_and(application_name = 'resource-api') as named from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
      )
      most = Math.max(most, Number(seen?.active))
      t.ok(Number(seen?.all) <= 4, 'three and the one for pings')
      t.equal(seen?.named, true)
      await wait(10)
    }
    await work
    t.equal(most, 3)
  })

  t.test('a statement that waits too long or in too long a queue is refused', async (t) => {
    const { db } = await open(t, { poolSize: 1, acquireTimeout: 150, maxWaiting: 2 })
    const long = db.run('select pg_sleep(2)')
    const line = [failing(() => db.run('select 1')), failing(() => db.run('select 1'))]
    const beyond = await failing(() => db.run('select 1'))
    t.ok(beyond.error instanceof DatabaseUnavailable && beyond.error.retryAfter === 2)
    t.ok(beyond.took < 140, `immediately (${beyond.took} ms)`)
    for (const { error, took } of await Promise.all(line)) {
      t.ok(error instanceof DatabaseUnavailable)
      t.ok(took >= 149 && took < 1500, `after 150 ms (${took})`)
    }
    await long
    await db.run('select 1')
  })

  t.test('a statement that exceeds its timeout is canceled by the server', async (t) => {
    const { db } = await open(t, { poolSize: 1, statementTimeout: 100 })
    const { error, took } = await failing(() => db.run('select pg_sleep(5)'))
    t.ok(error instanceof DatabaseUnavailable)
    t.match(error, { cause: { code: '57014' } })
    t.ok(took < 2500, `${took} ms`)
    t.strictSame(
      await db.transaction((tx) => tx.run("select pg_sleep(0.3)::text = '' as slept"), {
        statementTimeout: 0,
      }),
      [{ slept: true }],
      'unless the transaction lifts the limit',
    )
    t.strictSame(
      await db.run('show statement_timeout'),
      [{ statement_timeout: '100ms' }],
      'which ends with it',
    )
  })

  t.test('a stalled process does not mistake its own delay for a silent server', async (t) => {
    const { db } = await open(t, { poolSize: 1, statementTimeout: 300 })
    await db.run('select 1')
    await db.ping(1000)
    const pid = async () => (await db.run('select pg_backend_pid() as pid'))[0]?.pid
    const before = await pid()
    const running = db.run('with slow as (select pg_sleep(0.05)) select 1 as one from slow')
    const asked = db.ping(1000)
    await wait(10)
    // Where Node looks at its timers next, and at sockets only then.
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        const until = performance.now() + 2_000
        while (performance.now() < until);
        resolve()
      })
    })
    t.strictSame(await running, [{ one: 1 }], 'the answer lay there')
    await asked
    t.equal(await pid(), before, 'and the connection is kept')
  })

  t.test('a connection is replaced after its lifetime without an error', async (t) => {
    const { db } = await open(t, { poolSize: 2, lifetime: 20 })
    const pids = new Set<unknown>()
    for (let i = 0; i < 10; i++) {
      const rows = await Promise.all(
        [1, 2, 3].map(() => db.run('select pg_backend_pid() as pid, pg_sleep(0.01)')),
      )
      for (const [row] of rows) pids.add(row?.pid)
    }
    t.ok(pids.size > 2, `${pids.size} connections one after another`)
    const same = await db.transaction(async (tx) => {
      const pid = async () => (await tx.run('select pg_backend_pid() as pid'))[0]?.pid
      const first = await pid()
      await wait(60)
      return first === (await pid())
    })
    t.ok(same, 'a transaction keeps its own')
  })

  t.test('the number of prepared statements per connection is limited', async (t) => {
    const url = await createDatabase(t, server)
    const db = await openDatabase({ url, poolSize: 1 })
    t.teardown(() => db.close())
    for (let i = 0; i < 1200; i++) await db.run(`select ${i} as i`)
    const [row] = await db.run('select count(*) as known from pg_prepared_statements')
    t.ok(Number(row?.known) < 1001, `${row?.known} statements are prepared`)
    t.same(await db.run('select 1 as one'), [{ one: 1 }])
  })

  t.test('a closed connection fails its running statements, and no later ones', async (t) => {
    const { db, url } = await open(t, { poolSize: 1 })
    const other = await openDatabase({ url, poolSize: 1 })
    t.teardown(() => other.close())
    await db.run('create table cut (i int)')
    const pidOf = async () => (await db.run('select pg_backend_pid() as pid'))[0]?.pid
    const terminate = (pid: unknown) => other.run('select pg_terminate_backend($1)', [Number(pid)])

    const pid = await pidOf()
    const running = failing(() => db.run('with slow as (select pg_sleep(4)) select from slow'))
    await wait(50)
    await terminate(pid)
    const { error, took } = await running
    t.ok(error instanceof DatabaseUnavailable)
    t.ok(took < 2500, `${took} ms`)
    t.not(await pidOf(), pid, 'the next gets a new connection')

    for (const pause of [0, 100]) {
      const { error: torn } = await failing(() =>
        db.transaction(async (tx) => {
          const [row] = await tx.run('insert into cut values (1) returning pg_backend_pid() as pid')
          await terminate(row?.pid)
          await wait(pause)
          await tx.run('insert into cut values (2)').catch(() => undefined)
          await tx.run('insert into cut values (3)').catch(() => undefined)
        }),
      )
      t.ok(torn instanceof DatabaseUnavailable, 'a transaction cut in the middle, its work unaware of it')
      t.strictSame(
        await db.run('select count(*) from cut'),
        [{ count: 0 }],
        'leaves nothing, inside or outside',
      )
    }
    const { error: atEnd } = await failing(() =>
      db.transaction(async (tx) => {
        const [row] = await tx.run('insert into cut values (1) returning pg_backend_pid() as pid')
        await terminate(row?.pid)
      }),
    )
    t.ok(atEnd instanceof DatabaseUnavailable, 'one cut before its commit is not taken for done')
    t.strictSame(await db.run('select count(*) from cut'), [{ count: 0 }])

    await terminate(await pidOf())
    await wait(50)
    t.ok(await pidOf(), 'a connection closed while idle has no effect')
  })

  t.test('an unreachable server is reported promptly', async (t) => {
    const { url } = await open(t)
    const proxy = await startProxy(t, url)
    const db = await openDatabase({ url: proxy.url, poolSize: 2, statementTimeout: 500 })
    t.teardown(() => db.close())
    await db.run('select 1')

    for (const mode of ['refuse', 'hangUp'] as const) {
      await proxy.set(mode)
      for (let i = 0; i < 3; i++) {
        const all = await Promise.all(Array.from({ length: 20 }, () => failing(() => db.run('select 1'))))
        t.ok(all.every(({ error }) => error instanceof DatabaseUnavailable))
        const longest = Math.max(...all.map(({ took }) => took))
        t.ok(longest < 1500, `${mode}: ${longest.toFixed()} ms`)
      }
      const { error, took } = await failing(() => db.ping(1000))
      t.ok(error instanceof DatabaseUnavailable && took < 1500)
      await proxy.set('pass')
      await db.run('select 1')
      await db.ping(1000)
      t.pass('and it is used again as soon as it is back')
    }

    await proxy.set('silent')
    const ping = await failing(() => db.ping(300))
    t.ok(ping.error instanceof DatabaseUnavailable)
    t.ok(ping.took < 1500, `a ping waits no longer than it may: ${ping.took} ms`)
    const held = await failing(() => db.run('select 1'))
    t.ok(held.error instanceof DatabaseUnavailable)
    t.ok(held.took < 6000, `a server that fell silent: ${held.took} ms`)
    await proxy.set('pass')
    const start = getRunningTime()
    while ((await failing(() => db.run('select 1'))).error) await wait(20)
    t.ok(getRunningTime() - start < 2000, `back after ${getRunningTime() - start} ms`)
    t.ok(proxy.connections() < 200, `${proxy.connections()} connections tried in all`)
  })

  t.test('an invalid database address is refused with a reason', async (t) => {
    const closed = await startProxy(t, server)
    await closed.set('refuse')
    const { error, took } = await failing(() => openDatabase({ url: closed.url }))
    t.ok(error instanceof DatabaseUnavailable)
    t.match(error, { message: /ECONNREFUSED/ })
    t.ok(took < 1500)
    const url = new URL(server)
    url.pathname = 'no_such_database'
    await t.rejects(openDatabase({ url: url.href }), { message: /3D000/ })
    await t.rejects(openDatabase({ url: 'mysql://root:hunter2@localhost/db' }), {
      message: /^(?!.*hunter2).*postgres:/,
    })
    const admin = await openDatabase({ url: server, poolSize: 1 })
    const name = `latin_${process.pid}`
    t.teardown(async () => {
      await admin.run(`drop database ${name} with (force)`)
      await admin.close()
    })
    await admin.run(`create database ${name} template template0 encoding 'LATIN1' locale 'C'`)
    url.pathname = name
    await t.rejects(openDatabase({ url: url.href }), { message: /LATIN1.*UTF8/ })
  })
})

t.test('a connection that is abandoned during its start is closed', async (t) => {
  const address = parseAddress(await getClosedAddress(t))
  const connection = new ServerConnection({ address, statementTimeout: 1_000, lifetime: 60_000 })
  const asked = connection.run('select 1')
  // The socket exists and connects in the next turn of the event loop, when it has no listener any more.
  for (let i = 0; i < 100; i++) await undefined
  connection.destroy()
  await t.rejects(asked, DatabaseUnavailable)
  await wait(100)
  await connection.close()
})
