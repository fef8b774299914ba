/** Jobs run at their times, once for all processes, and their results are stored. */
import t from 'tap'
import { users } from '../../../accounts/src/users.ts'
import { type TestApp, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, type Owner } from '../../../testing/helpers/database.ts'
import { createMailFiles } from '../../../testing/helpers/mails.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { readWork } from '../../../testing/helpers/work.ts'
import { defineJob, type Job } from '../../src/jobs/definition.ts'

const HOUR_MS = 3_600_000
const START = Date.parse('2026-11-23T02:30:00Z')

/** A clock that a test moves. */
const createClock = () => ({ time: START })

/** Starts an app with jobs, and returns how a test lets time pass and reads them. */
async function start(
  t: Owner,
  jobs: Job[],
  clock = createClock(),
  database?: TestApp['database'],
  settings: Record<string, string> = {},
) {
  const overrides = { own: { jobs }, now: () => clock.time, ...(database && { database }) }
  const api = await testApp(t, settings, overrides)
  const read = (name: string) => readWork(api.database, `job:${name}`)
  return {
    ...api,
    read,
    pass(milliseconds: number) {
      clock.time += milliseconds
      api.app.jobs?.wake()
    },
    /** Resolves to a job when it has run, and its claim is given back. */
    async waitFor(name: string, condition: () => boolean | Promise<boolean>) {
      await waitUntil(async () => (await condition()) && (await read(name)).claim_id === null)
      return read(name)
    },
  }
}

t.test('a job runs when its time has come, and times that were missed are one run', async (t) => {
  const runs: string[] = []
  const { read, pass, waitFor } = await start(t, [
    defineJob({ name: 'nightly', cron: '0 3 * * *', run: async () => runs.push('nightly') }),
    defineJob({ name: 'hourly', every: '1h', run: async () => runs.push('hourly') }),
  ])
  const first = { schedule: 'cron 0 3 * * *', next_run_at: '2026-11-23T03:00:00.000Z' }
  t.match(await read('nightly'), first)
  t.match(await read('hourly'), { next_run_at: '2026-11-23T03:30:00.000Z', last_result: undefined })

  pass(HOUR_MS / 2)
  const now = '2026-11-23T03:00:00.000Z'
  t.match(await waitFor('nightly', () => runs.length === 1), {
    ...{ next_run_at: '2026-11-24T03:00:00.000Z', last_started_at: now, last_success_at: now },
    ...{ last_result: 'succeeded', failures: 0, error: null },
  })
  t.same(runs, ['nightly'])

  pass(4 * HOUR_MS)
  const hourly = await waitFor('hourly', () => runs.length === 2)
  t.same(runs, ['nightly', 'hourly'])
  t.match(hourly, { next_run_at: '2026-11-23T07:30:00.000Z' }, 'at the times of before')
})

t.test('the errors of jobs are stored, and their rows have events', async (t) => {
  let runs = 0
  const { app, admin, pass, read, waitFor } = await start(t, [
    defineJob({
      name: 'fragile',
      every: '1h',
      async run() {
        runs += 1
        if (runs < 3) throw new Error(`broken ${runs}\0`)
      },
    }),
    defineJob({
      name: 'slow',
      every: '1h',
      timeout: '1s',
      run: ({ signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('too late'))),
    }),
    defineJob({
      name: 'renames',
      every: '7h',
      run: ({ database, getStore }) =>
        database.transaction(async (tx) => {
          const [row] = await tx.run(`select id, revision, updated_at, name from users where role = 'admin'`)
          const { id, revision, updated_at, name } = row ?? {}
          const current = { id: String(id), revision: Number(revision), updated_at: String(updated_at), name }
          await getStore(users, tx).update(current, { name: 'Renamed' })
        }),
    }),
  ])
  const failed = { last_result: 'failed', last_success_at: undefined }
  for (const expected of [
    { ...failed, failures: 1, error: 'Error: broken 1', next_run_at: '2026-11-23T04:30:00.000Z' },
    { ...failed, failures: 2, error: 'Error: broken 2' },
    { last_result: 'succeeded', failures: 0, error: null },
  ]) {
    const before = runs
    pass(HOUR_MS)
    t.match(await waitFor('fragile', () => runs > before), expected)
    // Its signal is aborted.
    const slow = await waitFor('slow', async () => (await read('slow')).failures === before + 1)
    t.match(slow, { ...failed, error: 'TimeoutError: took longer than 1 s' })
  }
  pass(4 * HOUR_MS)
  await waitFor('renames', async () => (await read('renames')).last_result === 'succeeded')
  await app.events.assignAll()
  const { body } = await admin.get('/events?type=users.updated')
  t.match(body.data, [{ data: { name: 'Renamed' }, credential: 'system' }])
})

t.test('a shutdown aborts a job, which stays due and runs after the next start', async (t) => {
  const [clock, begun] = [createClock(), createDeferred()]
  const database = await createSharedDatabase(t)
  let runs = 0
  const long = defineJob({
    name: 'long',
    every: '1h',
    async run({ signal }) {
      runs += 1
      if (runs > 1) return
      begun.resolve()
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  })
  const changed = (every: '7d' | '2h') => defineJob({ name: 'changed', every, run: async () => {} })
  const first = await start(t, [long, changed('7d')], clock, database)
  first.pass(HOUR_MS)
  await begun.promise
  await first.app.close()
  t.match(await first.read('long'), { claim_id: null, last_result: undefined, failures: 0 })
  const { read, waitFor } = await start(t, [long, changed('2h')], clock, database)
  t.match(await waitFor('long', () => runs === 2), { last_result: 'succeeded' })
  const expected = { schedule: 'every 2h', next_run_at: '2026-11-23T05:30:00.000Z' }
  t.match(await read('changed'), expected, 'a job whose schedule was changed has a new next time')
})

t.test(
  'a schedule that is changed during a run counts after it, also for processes that do not know it',
  async (t) => {
    const [clock, begun, mayEnd] = [createClock(), createDeferred(), createDeferred()]
    const database = await createSharedDatabase(t)
    let runs = 0
    const run = async () => {
      runs += 1
      begun.resolve()
      await mayEnd.promise
    }
    const define = (every: '7d' | '2h') => defineJob({ name: 'changed', every, run })
    const before = await start(t, [define('7d')], clock, database)
    before.pass(7 * 24 * HOUR_MS)
    await begun.promise
    const claimed = await before.read('changed')
    const after = await start(t, [define('2h')], clock, database)
    const { claim_id, next_attempt_at, schedule } = claimed
    t.match(await after.read('changed'), { claim_id, next_attempt_at, schedule }, 'the claim is as it was')
    mayEnd.resolve()
    await before.waitFor('changed', async () => (await before.read('changed')).last_result === 'succeeded')
    after.app.work.wake()
    const expected = { schedule: 'every 2h', next_run_at: '2026-11-30T04:30:00.000Z' }
    t.match(
      await after.waitFor('changed', async () => (await after.read('changed')).schedule === 'every 2h'),
      expected,
    )
    // The process with the former schedule makes the next run.
    await after.app.close()
    before.pass(2 * HOUR_MS)
    t.match(await before.waitFor('changed', () => runs === 2), { next_run_at: '2026-11-30T06:30:00.000Z' })
  },
)

t.test('a job enqueues a mail, which is sent after its commit, and not after a rollback', async (t) => {
  const mails = createMailFiles(t)
  let commits = 0
  let runs = 0
  const reminder = defineJob({
    name: 'reminder',
    every: '1h',
    run: ({ database, mail }) =>
      database.transaction(async (tx) => {
        runs += 1
        const values = { time: `run ${runs}`, ip: 'none' }
        await mail?.enqueue(tx, { template: 'password-changed', recipient: 'admin@example.com', values })
        if (runs === 1) throw new Error('rolled back')
      }),
  })
  const { app, pass, waitFor } = await start(t, [reminder], undefined, undefined, mails.settings)
  app.outbox.subscribe(() => {
    commits += 1
  })
  for (const count of [1, 2]) {
    pass(HOUR_MS)
    await waitFor('reminder', () => runs === count)
  }
  t.equal(commits, 2, 'the worker of mails is woken after each run')
  t.match(await mails.waitFor({ to: 'admin@example.com' }), { text: /run 2/ })
  t.equal((await mails.read()).length, 1)
})

t.test('two jobs of one name do not start', async (t) => {
  const job = defineJob({ name: 'twice', every: '1h', run: async () => {} })
  await t.rejects(start(t, [job, job]), { message: 'Two jobs have the name "twice"' })
})
