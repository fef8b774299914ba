/** The metrics of webhooks, and what the log says of them: no secret and no path of an endpoint. */
import t from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { parseExposition } from '../helpers/exposition.ts'
import { waitUntil } from '../helpers/time.ts'
import { createEndpoint, respondWith, startReceiver, waitForDeliveries } from '../helpers/webhooks.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'

t.test('attempts, deliveries and disabled endpoints are counted, and a disabled one is logged', async (t) => {
  const lines: string[] = []
  const { admin, base } = await testApp(
    t,
    { METRICS_TOKEN, LOG_LEVEL: 'trace' },
    { logs: { write: (line) => void lines.push(line) } },
  )
  const scraper = createClient(base, { authorization: `Bearer ${METRICS_TOKEN}` })
  const scrape = async (name: string, label?: string) =>
    parseExposition((await scraper.get('/metrics')).text)
      .get(name)
      ?.samples.find(({ labels }) => (labels.result ?? labels.state) === label)?.value

  const [good, bad] = [await startReceiver(t), await startReceiver(t)]
  bad.respond = respondWith(410)
  const endpoint = await createEndpoint(admin, good.url)
  const gone = await createEndpoint(admin, `${bad.url}/path-token?key=query-token`)
  const { secret } = (await admin.post(`/webhook-endpoints/${endpoint.id}/secrets`, {})).body.data
  for (const { id } of [endpoint, gone]) {
    await admin.post(`/webhook-endpoints/${id}/deliveries`, { test: true })
    await waitForDeliveries(admin, id, (all) => all.every(({ status }) => status !== 'pending'))
  }
  await waitUntil(async () => (await scrape('webhook_endpoints_disabled')) === 1)
  for (const [name, label, expected] of [
    ['webhook_attempts_total', 'succeeded', 1],
    ['webhook_attempts_total', 'failed', 1],
    ['webhook_deliveries_total', 'succeeded', 1],
    ['webhook_deliveries_total', 'failed', 1],
    ['webhook_owners', 'all', 1],
    ['webhook_owners', 'failing', 0],
    ['webhook_longest_wait_seconds', undefined, 0],
  ] as const)
    t.equal(await scrape(name, label), expected, `${name} ${label}`)

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
