/** Work that requests enqueue is done after their commit, at least once, whatever its function or the database does. */
import { setTimeout as wait } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import t, { type Test } from 'tap'
import { apiError } from '../../../api/src/errors/errors.ts'
import { operation } from '../../../resources/src/routes/operation.ts'
import type { OwnRoutes } from '../../../resources/src/routes/own-routes.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { readWork } from '../../../testing/helpers/work.ts'
import { defineJob } from '../../src/jobs/definition.ts'
import { defineWork, type Work } from '../../src/work/definition.ts'

declare module '../../../resources/src/definition/work.ts' {
  interface WorkPayloads {
    charge: { amount: number }
    ship: { amount: number }
  }
}

const Charge = Type.Object({
  amount: Type.Integer(),
  key: Type.Optional(Type.String()),
  fails: Type.Optional(Type.Boolean()),
})

/** A route that enqueues work in its transaction. */
const checkouts: OwnRoutes = {
  name: 'checkouts',
  description: 'Payments',
  async plugin(app) {
    app.post(
      '/checkouts',
      operation({
        access: 'authenticated',
        idempotent: true,
        summary: 'Check out',
        body: Charge,
        async run({ store, body: { amount, key = null, fails } }) {
          const isNew = await store.enqueue('charge', { amount }, { key })
          if (fails) throw apiError('RESOURCE_CONFLICT', { message: 'Sold out' })
          return { is_new: isNew }
        },
      }),
    )
  },
}

type Options = Parameters<typeof testApp>[2]

/** Starts an app with kinds of work. */
async function start(t: Test, work: Work[], options: Options = {}) {
  const api = await testApp(t, {}, { ...options, routes: [checkouts], own: { work, ...options?.own } })
  return {
    ...api,
    checkOut: (body: object) => api.admin.post('/checkouts', body),
    /** Adds rows of work, and lets the worker look for them. */
    async add(name: string, count: number) {
      await api.database.run(
        `insert into work (kind, payload) select 'work:' || $1, jsonb_build_object('amount', i) from generate_series(1, $2::int) as i`,
        [name, count],
      )
      api.app.work.wake()
    },
    read: () => api.database.run(`select * from work where kind like 'work:%' order by id`),
  }
}

t.test('work is done after its commit, with its payload, and not after a rollback', async (t) => {
  const done: { amount: number; id: string }[] = []
  const charge = defineWork({
    name: 'charge',
    run: async ({ amount }, { id }) => void done.push({ amount, id }),
  })
  const { checkOut, read } = await start(t, [charge])
  t.equal((await checkOut({ amount: 1, fails: true })).status, 409)
  t.match(await checkOut({ amount: 2 }), { status: 200, body: { is_new: true } })
  await waitUntil(() => done.length > 0)
  await waitUntil(async () => (await read()).length === 0)
  t.match(done, [{ amount: 2, id: /^[0-9a-f-]{36}$/ }])
})

t.test('work of a key is done once', async (t) => {
  const done: number[] = []
  const charge = defineWork({ name: 'charge', run: async ({ amount }) => void done.push(amount) })
  const { checkOut, read } = await start(t, [charge])
  const replies = await Promise.all([1, 2, 3].map((amount) => checkOut({ amount, key: 'order-1' })))
  t.equal(replies.filter(({ body }) => body.is_new).length, 1)
  await waitUntil(async () => (await read())[0]?.status === 'succeeded')
  t.match(await checkOut({ amount: 4, key: 'order-1' }), { body: { is_new: false } }, 'nor after it was done')
  t.match(await checkOut({ amount: 5, key: 'order-2' }), { body: { is_new: true } })
  await waitUntil(() => done.length === 2)
  t.equal(done[1], 5)
})

t.test('work that fails is attempted by its schedule, then fails for good, and stops no other', async (t) => {
  const attempts: number[] = []
  const done: number[] = []
  const lines: string[] = []
  const charge = defineWork({
    name: 'charge',
    schedule: ['1s', '1s'],
    async run({ amount }, { attempts: number }) {
      if (amount !== 1) return void done.push(amount)
      attempts.push(number)
      throw new Error(`declined\0 ${number}`)
    },
  })
  const { add, read, app } = await start(t, [charge], { logs: { write: (line) => void lines.push(line) } })
  await add('charge', 3)
  await waitUntil(() => done.length === 2)
  await waitUntil(async () => (await read())[0]?.status === 'failed')
  t.same(attempts, [1, 2, 3])
  t.match(await read(), [{ attempts: 3, next_attempt_at: null, claim_id: null, error: 'Error: declined 3' }])
  await waitUntil(() => app.work.getState('work:charge')?.failed === 1)
})

t.test('work without a function is refused when it is enqueued', async (t) => {
  const { checkOut, read } = await start(t, [], { logs: { write() {} } })
  t.equal((await checkOut({ amount: 1 })).status, 500)
  t.same(await read(), [])
  const twice = defineWork({ name: 'charge', run: async () => {} })
  await t.rejects(start(t, [twice, twice]), { message: 'Two kinds of work have the name "charge"' })
})

t.test('a function that ignores its signal is given up, and its place is free again', async (t) => {
  const done: number[] = []
  const charge = defineWork({
    name: 'charge',
    ...{ timeout: '1s', concurrency: 1, schedule: ['1h'] },
    async run({ amount }) {
      if (amount === 1) await new Promise(() => {})
      done.push(amount)
    },
  })
  const { add, read, app } = await start(t, [charge])
  await add('charge', 2)
  await waitUntil(() => done.length === 1)
  await waitUntil(async () => (await read()).length === 1 && (await read())[0]?.claim_id === null)
  t.match(await read(), [{ attempts: 1, error: 'TimeoutError: took longer than 1 s' }])
  await app.close()
})

t.test('a shutdown aborts work, which does not count and is done by the next process', async (t) => {
  const database = await createSharedDatabase(t)
  const begun = createDeferred()
  const done: number[] = []
  const charge = defineWork({
    name: 'charge',
    async run({ amount }, { attempts, signal }) {
      begun.resolve()
      if (done.length === 0 && !signal.aborted && attempts === 1 && amount === 1 && !isSecond)
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      done.push(attempts)
    },
  })
  let isSecond = false
  const first = await start(t, [charge], { database })
  await first.add('charge', 1)
  await begun.promise
  await first.app.close()
  const [row] = await database.run(`select * from work where kind = 'work:charge'`)
  t.match(row, { attempts: 0, claim_id: null, status: 'pending', error: null })
  isSecond = true
  await start(t, [charge], { database })
  await waitUntil(() => done.length === 1)
  t.same(done, [1])
})

t.test('100,000 due rows of one kind do not delay one of another kind', async (t) => {
  let charged = 0
  let chargedBefore: number | undefined
  const work = [
    defineWork({
      name: 'charge',
      async run() {
        charged += 1
        await wait(20)
      },
    }),
    defineWork({
      name: 'ship',
      async run() {
        chargedBefore = charged
      },
    }),
  ]
  const { add } = await start(t, work)
  for (let i = 0; i < 20; i++) await add('charge', 5_000)
  await waitUntil(() => charged > 10)
  const before = charged
  await add('ship', 1)
  await waitUntil(() => chargedBefore !== undefined)
  // Five at a time, each for 20 ms: 500 would be those of 2 s.
  t.ok(Number(chargedBefore) - before < 500, `${chargedBefore} after ${before}`)
})

t.test('a claim whose reply was lost is made again when its lease ends', async (t) => {
  const shared = await createSharedDatabase(t)
  let isLost = false
  const done: number[] = []
  // The claim is committed, and the connection ends before its reply.
  const database = intercept(shared, (text, params) => {
    if (!isLost || !/set "attempts"/.test(text)) return undefined
    isLost = false
    return shared.run(text, [...params]).then(() => Promise.reject(new Error('connection lost')))
  })
  const charge = defineWork({ name: 'charge', run: async (_, { attempts }) => void done.push(attempts) })
  const { add } = await start(t, [charge], { database, leaseMs: 1_000, logs: { write() {} } })
  isLost = true
  await add('charge', 1)
  await waitUntil(() => done.length > 0)
  t.notOk(isLost)
  t.same(done, [2], 'the lost attempt counts')
})

t.test('results are stored when the database is back', async (t) => {
  const shared = await createSharedDatabase(t)
  let isDown = false
  let runs = 0
  const database = intercept(shared, (text) =>
    isDown && /delete from "work" using r/.test(text)
      ? Promise.reject(new Error('no connection'))
      : undefined,
  )
  const charge = defineWork({
    name: 'charge',
    async run() {
      runs += 1
      isDown = true
    },
  })
  const { add, read } = await start(t, [charge], { database, logs: { write() {} } })
  await add('charge', 1)
  await waitUntil(() => isDown)
  await wait(1_500)
  t.equal((await read()).length, 1)
  isDown = false
  await waitUntil(async () => (await read()).length === 0)
  t.equal(runs, 1)
})

t.test('a job runs once for each of its times, also if the clock of the process is set back', async (t) => {
  let time = Date.parse('2026-11-23T02:30:00Z')
  let runs = 0
  const job = defineJob({ name: 'hourly', every: '1h', run: async () => void runs++ })
  const { app, database } = await start(t, [], { own: { jobs: [job] }, now: () => time })
  time += 3_600_000
  app.work.wake()
  await waitUntil(() => runs === 1)
  time -= 3 * 3_600_000
  await waitUntil(async () => (await readWork(database, 'job:hourly')).claim_id === null)
  for (let i = 0; i < 3; i++) {
    app.work.wake()
    await wait(50)
  }
  t.equal(runs, 1)
  t.match(await readWork(database, 'job:hourly'), { next_run_at: '2026-11-23T04:30:00.000Z' })
})
