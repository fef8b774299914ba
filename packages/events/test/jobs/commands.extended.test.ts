/** `jobs list`, `jobs run`, `consumers list` and `consumers skip`. */
import { Command } from '@commander-js/extra-typings'
import t, { type Test } from 'tap'
import { buildApp } from '../../../../src/app.ts'
import { listRecorders } from '../../../../src/resources.ts'
import { newId } from '../../../database/src/lib/ids.ts'
import { users } from '../../../database/src/user-tables.ts'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, type TestApp } from '../../../testing/helpers/app.ts'
import { createMigratedDatabase, type Settings, withDatabaseAt } from '../../../testing/helpers/command.ts'
import { testEmbedded, testFolder, withSchema } from '../../../testing/helpers/database.ts'
import { insertEvent } from '../../../testing/helpers/events.ts'
import { WITHOUT_LIMITS } from '../../../testing/helpers/process.ts'
import { productsResource } from '../../../testing/helpers/shop.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createConsumerCommands } from '../../src/commands/consumers.ts'
import { createJobCommands } from '../../src/commands/jobs.ts'
import { type Consumer, defineConsumer } from '../../src/consumers/definition.ts'
import { defineJob, type Job } from '../../src/jobs/definition.ts'

/** Returns functions that run a command of a project with these jobs and consumers, and return the lines that it prints. */
function createRunners(t: Test, settings: Settings, { jobs = [], consumers = [] }: OwnWork) {
  const run = (group: readonly Command<[string] | []>[]) => async (line: string) => {
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
  return {
    runJobs: run(
      createJobCommands(
        async () => ({ jobs }),
        async (config) => listRecorders(config),
      ),
    ),
    runConsumers: run(createConsumerCommands(async () => ({ consumers }))),
  }
}

interface OwnWork {
  jobs?: Job[]
  consumers?: Consumer[]
}

t.test('a job that runs by hand enqueues mails of templates that there are', async (t) => {
  const settings = await createMigratedDatabase(t)
  const createJob = (template: string) =>
    defineJob({
      name: template,
      every: '1h',
      run: async ({ database, mail }) => mail?.enqueue(database, { template, recipient: 'a@example.com' }),
    })
  const { runJobs } = createRunners(t, settings, { jobs: [createJob('new-sign-in'), createJob('missing')] })
  await runJobs('run new-sign-in')
  await t.rejects(runJobs('run missing'), { cause: { message: /no template/ } })
  const read = `select payload ->> 'template' as template, payload ->> 'recipient' as recipient from work where kind = 'mail'`
  const rows = await withDatabaseAt(settings, (database) => database.run(read))
  t.same(rows, [{ template: 'new-sign-in', recipient: 'a@example.com' }])
})

t.test('a job runs by hand, and the list has its result', async (t) => {
  const settings = await createMigratedDatabase(t)
  let isBroken = false
  const report = defineJob({
    name: 'report',
    cron: '0 3 * * *',
    async run({ database }) {
      if (isBroken) throw new Error('no disk')
      await database.run('select 1')
    },
  })
  const { runJobs } = createRunners(t, settings, { jobs: [report] })
  t.equal(await runJobs('list --json'), '[]')
  t.match(await runJobs('run report'), /^The job "report" succeeded in [\d.]+ s$/)
  const [row] = JSON.parse(await runJobs('list --json'))
  t.match(row, {
    ...{ name: 'report', schedule: 'cron 0 3 * * *', next_run_at: /T03:00:00.000Z$/ },
    ...{ last_result: 'succeeded', failures: 0, error: null },
  })
  isBroken = true
  const failure = { message: 'The job "report" failed', cause: { message: 'no disk' } }
  await t.rejects(runJobs('run report'), failure)
  isBroken = false
  t.match(
    await runJobs('list'),
    /^name +schedule +next_run_at .*\nreport +cron 0 3 \* \* \* +\S+ +\S+ +failed +1 +Error: no disk$/,
  )
  const [failed] = JSON.parse(await runJobs('list --json'))
  t.equal(failed.next_run_at, row.next_run_at, 'the next time stays')
  t.match(JSON.parse(await runJobs('run report --json')), { name: 'report', result: 'succeeded' })
  await t.rejects(runJobs('run reports'), { message: 'There is no job "reports"; the jobs are report' })
  const claim = `update work set claim_id = gen_random_uuid(), next_attempt_at = now() + interval '1 minute'`
  await withDatabaseAt(settings, (database) => database.run(claim))
  await t.rejects(runJobs('run report'), { message: 'The job "report" is being run by another process' })
})

/** Inserts events of users that the consumer handles. */
async function addUsers({ app }: Pick<TestApp, 'app'>, ...names: string[]): Promise<void> {
  for (const name of names)
    await insertEvent(app.database, { type: 'users.created', columns: { name, email: 'a@example.com' } })
  await app.events.assignAll()
}

/** Defines a consumer that fails for one name, and keeps the others. */
const defineMails = (handled: unknown[]) =>
  defineConsumer({
    name: 'mails',
    types: ['users.created'],
    async handle({ data }) {
      if (data.name === 'poison') throw new Error('no address')
      // The creation of the first admin may get its position after the registration of the consumer.
      if (data.email === 'a@example.com') handled.push(data.name)
    },
  })

t.test('jobs run and events are skipped with and without a server that has the database open', async (t) => {
  const dataDir = testFolder(t)
  await (await testEmbedded(t, dataDir)).close()
  const settings = { DATA_DIR: dataDir }
  const handled: unknown[] = []
  const consumers = [defineMails(handled)]
  const id = newId()
  let rows = 0
  const report = defineJob({
    name: 'report',
    every: '1h',
    run: ({ database, getStore }) =>
      database.transaction(async (tx) => {
        const product = { id, revision: 1, sku: 'A', name: 'Of a job', price_amount: 1 }
        await getStore(productsResource, tx).insert(product)
        rows = await tx.$count(users)
      }),
  })
  const secrets = { APP_SECRET, ADMIN_API_KEY: ADMIN_KEY, LOG_LEVEL: 'silent' }
  const own = { consumers, jobs: [report] }
  const app = await buildApp(readConfig({ ...WITHOUT_LIMITS, ...settings, ...secrets }), { own })
  t.teardown(() => app.close())
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { database } = app
  const { runJobs, runConsumers } = createRunners(t, settings, own)

  const [before] = JSON.parse(await runJobs('list --json'))
  t.match(before, { name: 'report', last_result: null })
  t.match(await runJobs('run report'), /^The job "report" succeeded/)
  t.equal(rows, 1, 'the job has the database of the server')
  const [after] = JSON.parse(await runJobs('list --json'))
  t.match(after, { last_result: 'succeeded', next_run_at: before.next_run_at })
  t.same(await database.run(`select name from products`), [{ name: 'Of a job' }])

  await addUsers({ app }, 'poison', 'after')
  const list = async () => JSON.parse(await runConsumers('list --json'))[0]
  await waitUntil(async () => (await list()).failures > 0)
  const failing = await list()
  const { position, last_position } = failing
  t.match(failing, { name: 'mails', error: 'Error: no address', failed_position: last_position - 1 })
  t.ok(position < last_position - 1, `${position}`)
  const skip = () => runConsumers('skip mails').catch((error: Error) => error.message)
  // The server may be handling the event again at this moment.
  await waitUntil(async () => (await skip()).startsWith(`Skipped the event ${failing.failed_event_id}`))
  await addUsers({ app }, 'next', 'poison')
  await waitUntil(async () => (await list()).failures > 0)
  t.same(handled, ['after', 'next'])
  await app.close()

  const last = await list()
  const skipped = { position: last.failed_position, event_id: last.failed_event_id }
  t.same(JSON.parse(await runConsumers('skip mails --json')), skipped, 'without the server too')
  const message = /^No consumer "mails" waits to handle an event again/
  await t.rejects(runConsumers('skip mails'), { message })
  t.match(await runConsumers('list'), /^name +position .*\nmails +\d+ +\d+ +0 +- +- +-$/)
})
