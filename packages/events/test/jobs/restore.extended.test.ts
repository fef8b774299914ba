/** Jobs and consumers go on after `restore` and `copy`: no event is skipped, and schedules stay. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import {
  createMigratedDatabase,
  openAt,
  runCommand,
  type Settings,
} from '../../../testing/helpers/command.ts'
import { getSchema, SERVER, testEmbedded, testFolder } from '../../../testing/helpers/database.ts'
import { insertEvent } from '../../../testing/helpers/events.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { readWork } from '../../../testing/helpers/work.ts'
import { type ConsumedEvent, defineConsumer } from '../../src/consumers/definition.ts'
import { defineJob } from '../../src/jobs/definition.ts'

const START = Date.now()
const HOUR_MS = 3_600_000

/** Starts an app with a consumer and an hourly job, on a database that the test closes with the app. */
async function start(t: Test, settings: Settings, { now = START, isBroken = false } = {}) {
  const handled: ConsumedEvent[] = []
  const runs: number[] = []
  const consumer = defineConsumer({
    name: 'mails',
    types: ['users.created'],
    async handle(event) {
      if (isBroken && event.data.name === 'second') throw new Error('no address')
      handled.push(event)
    },
  })
  const job = defineJob({ name: 'report', every: '1h', run: async () => void runs.push(now) })
  const own = { consumers: [consumer], jobs: [job] }
  const { app, database } = await testApp(t, {}, { own, now: () => now, database: await openAt(settings) })
  const add = (name: string) =>
    insertEvent(database, { type: 'users.created', columns: { name, email: `${name}@example.com` } })
  const readConsumer = () => readWork(database, 'consumer:mails')
  const readJob = async () => {
    const row = await readWork(database, 'job:report')
    return { ...row, next: Date.parse(row.next_run_at) }
  }
  // The first admin may have an event too.
  const getNames = () => handled.map(({ data }) => data.name).filter((name) => name !== 'Admin')
  return { app, database, add, readConsumer, readJob, getNames, runs }
}

/** Fills a database as a backup of a running server finds it: with claims, a failed event, and changes in the outbox. */
async function fill(t: Test, settings: Settings): Promise<void> {
  const first = await start(t, settings, { isBroken: true })
  for (const name of ['first', 'second', 'third']) await first.add(name)
  await first.app.events.assignAll()
  await waitUntil(async () => Number((await first.readConsumer()).failures) > 0)
  await waitUntil(async () => (await first.readConsumer()).claim_id === null)
  t.same(first.getNames(), ['first'])
  t.equal((await first.readJob()).next, START + HOUR_MS)
  await first.app.close()

  const database = await openAt(settings)
  const columns = { name: 'fourth', email: 'fourth@example.com' }
  await insertEvent(database, { type: 'users.created', columns })
  // The claims end later than the next attempts were due.
  await database.run(
    `update work set claim_id = gen_random_uuid(), next_attempt_at = greatest(next_attempt_at, now() + interval '3 seconds')`,
  )
  await database.close()
}

/** Checks that the consumer and the job of a copy go on where the backup was written. */
async function check(t: Test, settings: Settings): Promise<void> {
  const early = await start(t, settings)
  await early.app.events.assignAll()
  await early.add('fifth')
  await early.app.events.assignAll()
  await waitUntil(() => early.getNames().length >= 4)
  t.same(early.getNames(), ['second', 'third', 'fourth', 'fifth'], 'none is skipped, none handled twice')
  t.same(early.runs, [], 'the job is not due yet')
  t.equal((await early.readJob()).next, START + HOUR_MS)
  await early.app.close()

  const late = await start(t, settings, { now: START + 2.5 * HOUR_MS })
  await waitUntil(async () => (await late.readJob()).last_result === 'succeeded')
  await waitUntil(async () => (await late.readJob()).claim_id === null)
  t.equal(late.runs.length, 1, 'missed times are one run')
  t.equal((await late.readJob()).next, START + 3 * HOUR_MS)
  await late.app.close()
}

const run = async (t: Test, args: string[], settings: Settings) => {
  const { code, err } = await runCommand(t, args, settings)
  t.equal(code, 0, err)
}

t.test('consumers and jobs go on after a restore', async (t) => {
  const [source, target] = [await createMigratedDatabase(t), await createMigratedDatabase(t)]
  await fill(t, source)
  const file = join(testFolder(t), 'backup.gz')
  await run(t, ['backup', file], source)
  // What the source does after the backup does not count.
  const lost = await start(t, source)
  await waitUntil(() => lost.getNames().length === 3)
  await lost.app.close()
  await run(t, ['restore', file], target)
  await check(t, target)
})

t.test('consumers and jobs go on after a copy to PostgreSQL', { skip: !SERVER }, async (t) => {
  const source = { DATA_DIR: testFolder(t) }
  await (await testEmbedded(t, source.DATA_DIR)).close()
  await fill(t, source)
  const target = await createMigratedDatabase(t)
  const { DATABASE_URL = '' } = target
  await run(t, ['copy', '--to', DATABASE_URL, '--schema', getSchema(DATABASE_URL)], source)
  await check(t, target)
})
