/** The metrics of webhooks, and what the log says of them: no secret and no path of an endpoint. */
import t from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { parseExposition } from '../helpers/exposition.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { respondWith, startReceiver } from '../helpers/webhook-receiver.ts'
import { createEndpoint, waitForDeliveries } from '../helpers/webhooks.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'

t.test('attempts, deliveries and disabled endpoints are counted, and a disabled one is logged', async (t) => {
  const lines: string[] = []
  const { admin, base, database } = await testApp(
    t,
    { METRICS_TOKEN, LOG_LEVEL: 'trace' },
    { logs: { write: (line) => void lines.push(line) } },
  )
  const scraper = createClient(base, { authorization: `Bearer ${METRICS_TOKEN}` })
  const scrape = async (name: string, result?: string) =>
    parseExposition((await scraper.get('/metrics')).text)
      .get(name)
      ?.samples.find(({ labels }) => labels.result === result)?.value

  const [good, bad] = [await startReceiver(t), await startReceiver(t)]
  bad.respond = respondWith(410)
  const endpoint = await createEndpoint(admin, good.url)
  const gone = await createEndpoint(admin, `${bad.url}/path-token?key=query-token`)
  const { secret } = (await admin.post(`/webhook-endpoints/${endpoint.id}/secrets`, {})).body.data
  for (const { id } of [endpoint, gone])
    await admin.post(`/webhook-endpoints/${id}/deliveries`, { test: true })
  for (const { id } of [endpoint, gone])
    await waitForDeliveries(admin, id, (all) => all.every(({ status }) => status !== 'pending'))
  await waitUntil(async () => (await scrape('webhook_endpoints_disabled')) === 1)
  for (const name of ['webhook_attempts_total', 'webhook_deliveries_total']) {
    t.equal(await scrape(name, 'succeeded'), 1, name)
    t.equal(await scrape(name, 'failed'), 1, name)
  }
  t.equal(await scrape('webhook_longest_wait_seconds'), 0)
  const countOwners = async (state: string) =>
    parseExposition((await scraper.get('/metrics')).text)
      .get('webhook_owners')
      ?.samples.find(({ labels }) => labels.state === state)?.value
  t.strictSame([await countOwners('all'), await countOwners('failing')], [1, 0], 'one is disabled')
  await database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, attempts, next_attempt_at, status)
     select id, user_id, gen_random_uuid(), 'webhook-endpoints.test', 0, null, 'failed' from webhook_endpoints`,
  )
  t.equal(await scrape('webhook_longest_wait_seconds'), 0, 'deliveries that ended are not due')

  const find = () => lines.find((line) => line.includes('a webhook endpoint was disabled'))
  await waitUntil(() => find() !== undefined)
  t.match(JSON.parse(find() ?? ''), {
    level: 'warn',
    endpoint_id: gone.id,
    origin: new URL(bad.url).origin,
    reason: 'The endpoint answered 410 Gone',
  })
  const log = lines.join('')
  t.notMatch(log, /whsec_|secret_box|path-token|query-token/)
  for (const each of [endpoint.secret, gone.secret, secret])
    t.notOk(log.includes(each.slice('whsec_'.length)))
})
