/** Measures how long deliveries to a quick endpoint take while many endpoints of others are slow or dead. */
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { openDatabase } from '../../drizzle/client/index.ts'
import { createClient, insertUser } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { createEndpoint, startReceiver } from '../helpers/webhooks.ts'
import { failIf, formatTimes, summarize } from './report.ts'
import { createDatabaseSettings, signIn, startSoakServer } from './server.ts'

/** How many endpoints of one owner answer after 9.9 s, and how many of another one never. */
const SLOW_ENDPOINTS = 100
const DEAD_ENDPOINTS = 20
const ANSWER_MS = 9_900
/** Deliveries that are due of each slow or dead endpoint at the beginning. */
const BACKLOG = 200
/** Each second an event is delivered to the quick endpoint. */
const SECONDS = 300
/** The time until a webhook of a quick endpoint must arrive, and the places of one owner: a quarter of 50. */
const MAX_DELAY_MS = 2_000
const MAX_PLACES_OF_OWNER = 12

export async function measureSlowEndpoints(t: Owner): Promise<void> {
  console.log(
    `${SLOW_ENDPOINTS} webhook endpoints that answer after 9.9 s, ${DEAD_ENDPOINTS} that never do, a quick one for ${SECONDS} s, PostgreSQL`,
  )
  const settings = await createDatabaseSettings(t)
  const { url, admin } = await startSoakServer(t, settings)
  const database = await openDatabase({ url: settings.DATABASE_URL, poolSize: 1 })
  t.teardown(() => database.close())
  const [slow, dead, quick] = [await startReceiver(t), await startReceiver(t), await startReceiver(t)]
  let concurrent = 0
  let mostConcurrent = 0
  slow.respond = (response) => {
    concurrent += 1
    mostConcurrent = Math.max(mostConcurrent, concurrent)
    setTimeout(() => response.end(), ANSWER_MS).unref()
    response.on('close', () => (concurrent -= 1))
  }
  dead.respond = () => {}

  const createEndpoints = async (receiver: typeof slow, count: number, fields = {}) => {
    const { id } = await insertUser(database, 'manager', ['*'])
    const owner = createClient(url, (await signIn(url, admin, id)).headers)
    for (let i = 0; i < count; i++) await createEndpoint(owner, receiver.url, fields)
  }
  await createEndpoints(slow, SLOW_ENDPOINTS, { event_types: ['posts.*'] })
  await createEndpoints(dead, DEAD_ENDPOINTS, { event_types: ['posts.*'] })
  await database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select id, user_id, gen_random_uuid(), 'webhook-endpoints.test', now()
     from webhook_endpoints, generate_series(1, ${BACKLOG})`,
  )
  await createEndpoints(quick, 1)
  /** The times at which the requests were answered, by the id of the product. */
  const created = new Map<string, number>()
  for (let second = 0; second < SECONDS; second++) {
    const reply = await admin.post('/products', { sku: `S-${second}`, name: 'Tea', price_amount: 5 })
    if (reply.status !== 201) throw new Error(reply.text)
    created.set(reply.body.data.id, performance.now())
    await wait(1_000)
  }
  await wait(2_000)

  const delays = quick.received.map(({ body, at }) =>
    Math.max(0, at - (created.get(body.data.resource_id) ?? Number.NaN)),
  )
  const missing = created.size - delays.length
  const [stored] = await database.execute<{ attempts: number }>(
    sql`select sum(attempts)::int8 as attempts from webhook_deliveries where event_type = 'webhook-endpoints.test'`,
  )
  const requests = slow.received.length + dead.received.length
  const times = summarize(delays)
  console.log(
    `  ${delays.length} webhooks arrived, ${missing} did not; ms after the change: ${formatTimes(times)}`,
  )
  console.log(
    `  the slow endpoints got ${slow.received.length} requests, up to ${mostConcurrent} at a time;` +
      ` the dead ones ${dead.received.length}; ${stored?.attempts} attempts are stored`,
  )
  failIf(missing !== 0 || !(times.max <= MAX_DELAY_MS))
  failIf(mostConcurrent > MAX_PLACES_OF_OWNER || stored?.attempts !== requests)
}
