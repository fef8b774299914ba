/** Jobs run at their times, once for all processes, and their results are stored. */
import t from 'tap'
import { defineJob } from '../../plugins/jobs/definition.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { testApp } from '../helpers/app.ts'
import { createSharedDatabase, testDatabase } from '../helpers/database.ts'
import { overhear } from '../helpers/statements.ts'
import { createDeferred, waitUntil } from '../helpers/time.ts'

const HOUR_MS = 3_600_000
const START = Date.parse('2026-11-23T02:30:00Z')

/** A clock that a test moves. */
function createClock() {
  let time = START
  return {
    now: () => time,
    pass(milliseconds: number) {
      time += milliseconds
    },
  }
}

type App = Awaited<ReturnType<typeof testApp>>

const readJob = async ({ database }: Pick<App, 'database'>, name: string) => {
  const [row] = await database.run('select * from scheduled_jobs where name = $1', [name])
  return row
}

const isFree = async (api: Pick<App, 'database'>, name: string) =>
  (await readJob(api, name))?.claim_id === null

t.test('a job runs when its time has come, and times that were missed are one run', async (t) => {
  const clock = createClock()
  const runs: string[] = []
  const jobs = [
    defineJob({ name: 'nightly', cron: '0 3 * * *', run: async () => runs.push('nightly') }),
    defineJob({ name: 'hourly', every: '1h', run: async () => runs.push('hourly') }),
  ]
  const api = await testApp(t, {}, { own: { jobs }, now: clock.now })
  t.match(await readJob(api, 'nightly'), {
    schedule: 'cron 0 3 * * *',
    next_run_at: '2026-11-23 03:00:00+00',
  })
  t.match(await readJob(api, 'hourly'), { next_run_at: '2026-11-23 03:30:00+00', last_result: null })

  clock.pass(HOUR_MS / 2)
  api.app.jobs?.wake()
  await waitUntil(() => runs.length === 1)
  await waitUntil(() => isFree(api, 'nightly'))
  t.same(runs, ['nightly'])
  t.match(await readJob(api, 'nightly'), {
    next_run_at: '2026-11-24 03:00:00+00',
    last_started_at: '2026-11-23 03:00:00+00',
    last_success_at: '2026-11-23 03:00:00+00',
    last_result: 'succeeded',
    failures: 0,
    error: null,
  })

  clock.pass(4 * HOUR_MS)
  api.app.jobs?.wake()
  await waitUntil(() => runs.length === 2)
  await waitUntil(() => isFree(api, 'hourly'))
  t.same(runs, ['nightly', 'hourly'])
  t.match(await readJob(api, 'hourly'), { next_run_at: '2026-11-23 07:30:00+00' }, 'at the times of before')
})

t.test('a job that fails runs again at its next time, and its error is stored', async (t) => {
  const clock = createClock()
  let runs = 0
  const jobs = [
    defineJob({
      name: 'fragile',
      every: '1h',
      async run() {
        runs += 1
        if (runs < 3) throw new Error(`broken ${runs}\0`)
      },
    }),
  ]
  const api = await testApp(t, {}, { own: { jobs }, now: clock.now })
  const runNext = async () => {
    const before = runs
    clock.pass(HOUR_MS)
    api.app.jobs?.wake()
    await waitUntil(async () => runs > before && (await isFree(api, 'fragile')))
    return readJob(api, 'fragile')
  }
  const failed = { last_result: 'failed', last_success_at: null }
  t.match(await runNext(), {
    ...failed,
    failures: 1,
    error: 'Error: broken 1',
    next_run_at: '2026-11-23 04:30:00+00',
  })
  t.match(await runNext(), { ...failed, failures: 2, error: 'Error: broken 2' })
  t.match(await runNext(), { last_result: 'succeeded', failures: 0, error: null })
})

t.test('the signal of a job is aborted after its timeout, and the run has failed', async (t) => {
  const clock = createClock()
  const jobs = [
    defineJob({
      name: 'slow',
      every: '1h',
      timeout: '1s',
      run: ({ signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('too late'))),
    }),
  ]
  const api = await testApp(t, {}, { own: { jobs }, now: clock.now })
  clock.pass(HOUR_MS)
  api.app.jobs?.wake()
  await waitUntil(async () => (await readJob(api, 'slow'))?.last_result === 'failed')
  t.match(await readJob(api, 'slow'), { error: 'TimeoutError: took longer than 1 s', failures: 1 })
})

t.test('a shutdown aborts a job, which stays due and runs after the next start', async (t) => {
  const clock = createClock()
  const database = await createSharedDatabase(t)
  const begun = createDeferred()
  let runs = 0
  const jobs = [
    defineJob({
      name: 'long',
      every: '1h',
      async run({ signal }) {
        runs += 1
        if (runs > 1) return
        begun.resolve()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    }),
  ]
  const own = { jobs }
  const first = await testApp(t, {}, { own, now: clock.now, database })
  clock.pass(HOUR_MS)
  first.app.jobs?.wake()
  await begun.promise
  await first.app.close()
  t.match(await readJob({ database }, 'long'), { claim_id: null, last_result: null, failures: 0 })
  await testApp(t, {}, { own, now: clock.now, database })
  await waitUntil(async () => (await readJob({ database }, 'long'))?.last_result === 'succeeded')
  t.equal(runs, 2)
})

t.test('a job whose schedule was changed has a new next time', async (t) => {
  const clock = createClock()
  const database = await createSharedDatabase(t)
  const run = async () => {}
  const weekly = { jobs: [defineJob({ name: 'a', every: '7d', run })] }
  const first = await testApp(t, {}, { own: weekly, now: clock.now, database })
  await first.app.close()
  clock.pass(HOUR_MS)
  const jobs = [defineJob({ name: 'a', every: '2h', run })]
  const api = await testApp(t, {}, { own: { jobs }, now: clock.now, database })
  t.match(await readJob(api, 'a'), { schedule: 'every 2h', next_run_at: '2026-11-23 05:30:00+00' })
})

t.test('a job writes rows with their events', async (t) => {
  const clock = createClock()
  const jobs = [
    defineJob({
      name: 'renames',
      every: '1h',
      run: ({ database, getStore }) =>
        database.transaction(async (tx) => {
          const [row] = await tx.run(`select id, revision, updated_at, name from users where role = 'admin'`)
          const { id, revision, updated_at, name } = row ?? {}
          const current = { id: String(id), revision: Number(revision), updated_at: String(updated_at), name }
          await getStore(usersResource, tx).update(current, { name: 'Renamed' })
        }),
    }),
  ]
  const api = await testApp(t, {}, { own: { jobs }, now: clock.now })
  clock.pass(HOUR_MS)
  api.app.jobs?.wake()
  await waitUntil(async () => (await readJob(api, 'renames'))?.last_result === 'succeeded')
  await api.app.events.assignAll()
  const { body } = await api.admin.get('/events?type=users.updated')
  t.match(body.data, [{ data: { name: 'Renamed' }, credential: 'system' }])
})

t.test('two jobs of one name do not start', async (t) => {
  const job = defineJob({ name: 'twice', every: '1h', run: async () => {} })
  await t.rejects(testApp(t, {}, { own: { jobs: [job, job] } }), {
    message: 'Two jobs have the name "twice"',
  })
})

t.test('without jobs and consumers, no statement is sent for them', async (t) => {
  const { database, take } = overhear(await testDatabase(t))
  const { app } = await testApp(t, {}, { database })
  await app.events.assignAll()
  t.notMatch(take().statements.join('\n'), /scheduled_jobs|event_consumers/)
  t.equal(app.jobs, undefined)
})
