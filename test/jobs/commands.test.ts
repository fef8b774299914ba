/** `jobs list`, `jobs run`, `consumers list` and `consumers skip`. */
import { Command } from '@commander-js/extra-typings'
import t, { type Test } from 'tap'
import { defineConsumer } from '../../plugins/consumers/definition.ts'
import { defineJob } from '../../plugins/jobs/definition.ts'
import { createConsumerCommands } from '../../src/cli/consumers.ts'
import { createJobCommands } from '../../src/cli/jobs.ts'
import { testApp } from '../helpers/app.ts'
import { createMigratedDatabase, openAt, type Settings, withDatabaseAt } from '../helpers/command.ts'
import { withSchema } from '../helpers/database.ts'
import { insertEvent } from '../helpers/events.ts'
import { waitUntil } from '../helpers/time.ts'

let isBroken = false
const jobs = [
  defineJob({
    name: 'report',
    cron: '0 3 * * *',
    async run({ database }) {
      if (isBroken) throw new Error('no disk')
      await database.run('select 1')
    },
  }),
]

/** Runs a command of a project, and returns the lines that it prints. */
async function run(t: Test, group: readonly Command<[string] | []>[], line: string, settings: Settings) {
  const program = new Command('test').exitOverride()
  for (const command of group) program.addCommand(command)
  const out = t.capture(console, 'log')
  const env = t.intercept(process, 'env', { value: withSchema({ LOG_LEVEL: 'silent', ...settings }) })
  try {
    await program.parseAsync(line.split(' '), { from: 'user' })
  } finally {
    env.restore()
    out.restore()
  }
  return out()
    .map(({ args }) => String(args[0]))
    .join('\n')
}

t.test('a job runs by hand, and the list has its result', async (t) => {
  const settings = await createMigratedDatabase(t)
  const runJobs = (line: string) =>
    run(
      t,
      createJobCommands(async () => ({ jobs })),
      line,
      settings,
    )
  t.equal(await runJobs('list --json'), '[]')
  t.match(await runJobs('run report'), /^The job "report" succeeded in [\d.]+ s$/)
  const [row] = JSON.parse(await runJobs('list --json'))
  t.match(row, {
    name: 'report',
    schedule: 'cron 0 3 * * *',
    next_run_at: /T03:00:00.000Z$/,
    last_result: 'succeeded',
    failures: 0,
    error: null,
  })
  isBroken = true
  await t.rejects(runJobs('run report'), {
    message: 'The job "report" failed',
    cause: { message: 'no disk' },
  })
  isBroken = false
  t.match(
    await runJobs('list'),
    /^name +schedule +next_run_at .*\nreport +cron 0 3 \* \* \* +\S+ +\S+ +failed +1 +Error: no disk$/,
  )
  const [failed] = JSON.parse(await runJobs('list --json'))
  t.equal(failed.next_run_at, row.next_run_at, 'the next time stays')
  t.match(JSON.parse(await runJobs('run report --json')), { name: 'report', result: 'succeeded' })
  await t.rejects(runJobs('run reports'), { message: 'There is no job "reports"; the jobs are report' })
  await withDatabaseAt(settings, (database) =>
    database.run(
      `update scheduled_jobs set claim_id = gen_random_uuid(), leased_until = now() + interval '1 minute'`,
    ),
  )
  await t.rejects(runJobs('run report'), { message: 'The job "report" is being run by another process' })
})

t.test('a consumer goes on after an event that is skipped', async (t) => {
  const settings = await createMigratedDatabase(t)
  const handled: unknown[] = []
  const consumers = [
    defineConsumer({
      name: 'mails',
      types: ['users.created'],
      async handle({ data }) {
        if (data.name === 'poison') throw new Error('no address')
        handled.push(data.name)
      },
    }),
  ]
  const runConsumers = (line: string) =>
    run(
      t,
      createConsumerCommands(async () => ({ consumers })),
      line,
      settings,
    )
  const first = await testApp(t, {}, { own: { consumers }, database: await openAt(settings) })
  for (const name of ['poison', 'after'])
    await insertEvent(first.database, { type: 'users.created', columns: { name, email: 'a@example.com' } })
  await first.app.events.assignAll()
  await waitUntil(async () => {
    const [row] = await first.database.run('select failures, claim_id from event_consumers')
    return Number(row?.failures) > 0 && row?.claim_id === null
  })
  await first.app.close()

  const [failing] = JSON.parse(await runConsumers('list --json'))
  t.match(failing, { name: 'mails', error: 'Error: no address', failed_position: failing.position + 1 })
  t.equal(failing.last_position, failing.position + 2)
  t.equal(
    await runConsumers('skip mails'),
    `Skipped the event ${failing.failed_event_id} at position ${failing.failed_position}`,
  )
  await t.rejects(runConsumers('skip mails'), {
    message: /^No consumer "mails" waits to handle an event again/,
  })
  t.match(await runConsumers('list'), /^name +position .*\nmails +\d+ +\d+ +0 +- +- +-$/)
  const second = await testApp(t, {}, { own: { consumers }, database: await openAt(settings) })
  await waitUntil(() => handled.includes('after'))
  await second.app.close()
})
