/** The metrics of jobs and consumers. */
import t from 'tap'
import { defineConsumer } from '../../plugins/consumers/definition.ts'
import { defineJob } from '../../plugins/jobs/definition.ts'
import { createClient, testApp } from '../helpers/app.ts'
import { insertEvent } from '../helpers/events.ts'
import { parseExposition } from '../helpers/exposition.ts'
import { waitUntil } from '../helpers/time.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'

t.test('runs, failures, the last success and the lag are in the metrics', async (t) => {
  let time = Date.parse('2026-11-23T02:30:00Z')
  const own = {
    jobs: [
      defineJob({ name: 'report', every: '1h', run: async () => {} }),
      defineJob({ name: 'fragile', every: '1h', run: () => Promise.reject(new Error('no disk')) }),
    ],
    consumers: [
      defineConsumer({
        name: 'mails',
        types: ['users.updated'],
        handle: () => Promise.reject(new Error('no mail server')),
      }),
    ],
  }
  const { app, base, database } = await testApp(t, { METRICS_TOKEN }, { own, now: () => time })
  const scraper = createClient(base, { authorization: `Bearer ${METRICS_TOKEN}` })
  const read = async () => {
    const families = parseExposition((await scraper.get('/metrics')).text)
    return (family: string, name: string) =>
      families.get(family)?.samples.find(({ labels }) => labels.name === name)?.value
  }
  time += 3_600_000
  app.jobs?.wake()
  await insertEvent(database, { type: 'users.updated', previous: {} })
  await insertEvent(database, { type: 'users.created' })
  await app.events.assignAll()
  await waitUntil(async () => {
    const get = await read()
    return (
      get('job_failures', 'fragile') === 1 &&
      Number(get('job_last_success_timestamp_seconds', 'report')) > 0 &&
      Number(get('consumer_failures', 'mails')) > 0
    )
  })
  const get = await read()
  t.equal(get('job_last_success_timestamp_seconds', 'report'), time / 1000)
  t.equal(get('job_last_success_timestamp_seconds', 'fragile'), 0)
  t.equal(get('job_next_run_timestamp_seconds', 'report'), time / 1000 + 3_600)
  t.equal(get('job_runs_total', 'report'), 1)
  t.equal(get('job_runs_total', 'fragile'), 1)
  t.ok(Number(get('consumer_events_total', 'mails')) > 0)
  // The creation of the admin may be one of them.
  t.ok(Number(get('consumer_lag_events', 'mails')) >= 2)
})
