/** The metrics of events, webhooks, mails, jobs and consumers, and what the log says of a disabled endpoint. */
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { insertEvent, openStream } from '../../../testing/helpers/events.ts'
import { parseExposition } from '../../../testing/helpers/exposition.ts'
import { startSmtpServer } from '../../../testing/helpers/mails.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import {
  createEndpoint,
  respondWith,
  startReceiver,
  waitForDeliveries,
} from '../../../testing/helpers/webhooks.ts'
import { defineConsumer } from '../../src/consumers/definition.ts'
import { defineJob } from '../../src/jobs/definition.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'
const mailbox = await startSmtpServer(t, {
  onRcptTo({ address }, _, callback) {
    const responseCode = { 'later@example.com': 451, 'never@example.com': 550 }[address]
    callback(responseCode ? Object.assign(new Error('refused'), { responseCode }) : null)
  },
})
const logged: string[] = []
const { app, admin, adminId, anybody, base, database } = await testApp(
  t,
  { ...mailbox.settings, METRICS_TOKEN, LOG_LEVEL: 'trace' },
  { logs: { write: (line) => void logged.push(line) } },
)
const authorization = `Bearer ${METRICS_TOKEN}`

/** Returns a function that finds the value of a sample by its name and by a value of its labels. */
async function scrape(client = anybody) {
  const { text } = await client.get('/metrics', { authorization })
  const samples = [...parseExposition(text).values()].flatMap((family) => family.samples)
  return (name: string, label?: string) =>
    samples.find((sample) => sample.name === name && (!label || Object.values(sample.labels).includes(label)))
      ?.value
}

t.test('events, their delay, and streams are counted', async (t) => {
  await insertEvent(database, { created_at: new Date(Date.now() - 60_000).toISOString() })
  await insertEvent(database)
  await app.events.assignAll()
  const stream = await openStream(t, { app, base }, { headers: { 'x-api-key': ADMIN_KEY } })
  const during = await scrape()
  t.equal(during('events_total'), 3, 'with that of the first admin')
  t.equal(during('event_position_delay_seconds_count'), 3)
  t.ok(Number(during('event_position_delay_seconds_sum')) >= 60)
  t.equal(during('event_streams'), 1)
  t.equal(during('event_pending_age_seconds'), 0)
  stream.close()
  await waitUntil(() => app.events.streams.size === 0)
  const after = await scrape()
  t.equal(after('event_streams_ended_total', 'client'), 1)
  // The duration of a stream says nothing about the service.
  t.ok(after('http_request_duration_seconds_count', '/metrics') !== undefined)
  t.equal(after('http_request_duration_seconds_count', '/events'), undefined)
})

t.test('attempts, deliveries and disabled endpoints are counted, and a disabled one is logged', async (t) => {
  const [good, bad] = [await startReceiver(t), await startReceiver(t)]
  bad.respond = respondWith(410)
  const endpoint = await createEndpoint(admin, good.url)
  const gone = await createEndpoint(admin, `${bad.url}/path-token?key=query-token`)
  const { secret } = (await admin.post(`/webhook-endpoints/${endpoint.id}/secrets`, {})).body.data
  for (const { id } of [endpoint, gone]) {
    await admin.post(`/webhook-endpoints/${id}/deliveries`, { test: true })
    await waitForDeliveries(admin, id, (all) => all.every(({ status }) => status !== 'pending'))
  }
  await waitUntil(async () => (await scrape())('webhook_endpoints_disabled') === 1)
  const get = await scrape()
  for (const [name, label, expected] of [
    ['webhook_attempts_total', 'succeeded', 1],
    ['webhook_attempts_total', 'failed', 1],
    ['webhook_deliveries_total', 'succeeded', 1],
    ['webhook_deliveries_total', 'failed', 1],
    ['webhook_owners', 'all', 1],
    ['webhook_owners', 'failing', 0],
    ['webhook_longest_wait_seconds', undefined, 0],
  ] as const)
    t.equal(get(name, label), expected, `${name} ${label}`)

  const find = () => logged.find((line) => line.includes('a webhook endpoint was disabled'))
  await waitUntil(() => find() !== undefined)
  t.match(JSON.parse(find() ?? ''), {
    level: 'warn',
    endpoint_id: gone.id,
    origin: new URL(bad.url).origin,
    reason: 'The endpoint answered 410 Gone',
  })
  const log = logged.join('')
  t.notMatch(log, /whsec_|secret_box|path-token|query-token/)
  for (const each of [endpoint.secret, gone.secret, secret])
    t.notOk(log.includes(each.slice('whsec_'.length)))
})

t.test('mails that were sent, failed and wait are counted, and the server stays ready', async (t) => {
  for (const recipient of ['sent@example.com', 'later@example.com', 'never@example.com'])
    await app.mail?.enqueue(database, {
      ...{ template: 'password-changed', recipient, userId: adminId, values: { time: 'today' } },
    })
  await database.run(`update work set created_at = now() - interval '1 hour' where kind = 'mail'`)
  app.outbox.publish()
  await waitUntil(() => app.work.getState('mail')?.failed === 1 && app.work.getState('mail')?.waiting === 1)
  const get = await scrape()
  t.same([get('mails_total', 'sent'), get('mails_total', 'failed')], [1, 1])
  t.same([get('mail_queue', 'waiting'), get('mail_queue', 'failed')], [1, 1])
  const wait = Number(get('mail_longest_wait_seconds'))
  t.ok(wait >= 3_600 && wait < 3_700, `${wait}`)
  t.equal((await anybody.get('/readyz')).status, 200)
})

t.test('runs, failures, last successes and lags are counted; without mail, no mails', async (t) => {
  let time = Date.parse('2026-11-23T02:30:00Z')
  const fail = (message: string) => () => Promise.reject(new Error(message))
  const own = {
    jobs: [
      defineJob({ name: 'report', every: '1h', run: async () => {} }),
      defineJob({ name: 'fragile', every: '1h', run: fail('no disk') }),
    ],
    consumers: [defineConsumer({ name: 'mails', types: ['users.updated'], handle: fail('no mail server') })],
  }
  const database = await createSharedDatabase(t)
  const { app, anybody } = await testApp(
    t,
    { NODE_ENV: 'production', INSECURE_HTTP: 'true', METRICS_TOKEN },
    { own, database, now: () => time },
  )
  t.equal(app.mail, undefined)
  t.equal((await scrape(anybody))('mail_queue'), undefined)
  time += 3_600_000
  app.jobs?.wake()
  await insertEvent(database, { type: 'users.updated', previous: {} })
  await insertEvent(database, { type: 'users.created' })
  await app.events.assignAll()
  await waitUntil(async () => {
    const get = await scrape(anybody)
    return (
      get('job_failures', 'fragile') === 1 &&
      Number(get('job_last_success_timestamp_seconds', 'report')) > 0 &&
      Number(get('consumer_failures', 'mails')) > 0
    )
  })
  const get = await scrape(anybody)
  t.equal(get('job_last_success_timestamp_seconds', 'report'), time / 1000)
  t.equal(get('job_last_success_timestamp_seconds', 'fragile'), 0)
  t.equal(get('job_next_run_timestamp_seconds', 'report'), time / 1000 + 3_600)
  t.equal(get('job_runs_total', 'report'), 1)
  t.equal(get('job_runs_total', 'fragile'), 1)
  t.ok(Number(get('consumer_events_total', 'mails')) > 0)
  // The creation of the admin may be one of them.
  t.ok(Number(get('consumer_lag_events', 'mails')) >= 2)
})
