/** The metrics of the feed and of its streams. */
import t from 'tap'
import { ADMIN_KEY, createClient, testApp } from '../helpers/app.ts'
import { insertEvent, openStream } from '../helpers/events.ts'
import { type Family, parseExposition } from '../helpers/exposition.ts'
import { waitUntil } from '../helpers/time.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'

t.test('events, their delay, and streams are counted', async (t) => {
  const { app, base, database } = await testApp(t, { METRICS_TOKEN })
  const scraper = createClient(base, { authorization: `Bearer ${METRICS_TOKEN}` })
  const scrape = async () => parseExposition((await scraper.get('/metrics')).text)
  const getValue = (families: Map<string, Family>, family: string, sample = family) =>
    families.get(family)?.samples.find(({ name }) => name === sample)?.value

  await insertEvent(database, { created_at: new Date(Date.now() - 60_000).toISOString() })
  await insertEvent(database)
  await app.events.assignAll()
  const stream = await openStream(t, { app, base }, { headers: { 'x-api-key': ADMIN_KEY } })
  const during = await scrape()
  const delay = 'event_position_delay_seconds'
  t.equal(getValue(during, 'events_total'), 3, 'with that of the first admin')
  t.equal(getValue(during, delay, `${delay}_count`), 3)
  t.ok(Number(getValue(during, delay, `${delay}_sum`)) >= 60)
  t.equal(getValue(during, 'event_streams'), 1)
  t.equal(getValue(during, 'event_pending_age_seconds'), 0)
  stream.close()
  await waitUntil(() => app.events.streams.size === 0)
  const after = await scrape()
  t.match(after.get('event_streams_ended_total')?.samples, [{ labels: { reason: 'client' }, value: 1 }])
  const durations = after.get('http_request_duration_seconds')?.samples ?? []
  // The duration of a stream says nothing about the service.
  t.notOk(durations.some(({ labels }) => labels.route === '/events'))
})
