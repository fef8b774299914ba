/** Sends webhooks to a quick endpoint while 100 slow ones of another owner, and 20 that never answer, have a backlog. */
import { createServer, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { openPostgres } from '../../packages/database/src/client/server/server.ts'
import { createClient, insertUser } from '../../packages/testing/helpers/app.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { listen } from '../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { createEndpoint, startReceiver } from '../../packages/testing/helpers/webhooks.ts'
import { failIf, formatTimes, summarize } from './report.ts'
import { createDatabaseSettings, signIn, startSoakServer } from './server.ts'

const SLOW_COUNT = 100
const SLOW_MS = 9_900
const DEAD_COUNT = 20
/** Deliveries that wait for each of those. */
const BACKLOG = 200
/** Events of the quick endpoint, one each second. */
const EVENTS = 300
/** How long an event of the quick endpoint may take at most. */
const MAX_MS = 2_000
/** Attempts of a process at a time. */
const PLACES = 50

/** Starts a server that answers after a time, or never, and counts its requests. */
async function startSlow(t: Owner, answer: (response: ServerResponse) => void) {
  const counts = { arrived: 0, open: 0, most: 0 }
  const server = createServer((request, response) => {
    counts.arrived += 1
    counts.open += 1
    counts.most = Math.max(counts.most, counts.open)
    response.on('close', () => {
      counts.open -= 1
    })
    request.resume()
    answer(response)
  })
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${port}/hook`, counts }
}

export async function soakSlowEndpoints(t: Owner): Promise<void> {
  console.log(
    `${SLOW_COUNT} endpoints that answer after ${SLOW_MS} ms, ${DEAD_COUNT} that never do, PostgreSQL`,
  )
  const settings = await createDatabaseSettings(t)
  const server = await startSoakServer(t, settings)
  const database = await openPostgres({ url: settings.DATABASE_URL ?? '', poolSize: 2, statementTimeout: 0 })
  t.teardown(() => database.close())
  const openOwner = async () => {
    const { id } = await insertUser(database, 'admin', ['*'])
    return createClient(server.url, (await signIn(server.url, server.admin, id)).headers)
  }
  const [slowOwner, deadOwner, quickOwner] = [await openOwner(), await openOwner(), await openOwner()]
  const slow = await startSlow(t, (response) => setTimeout(() => response.writeHead(200).end(), SLOW_MS))
  const dead = await startSlow(t, () => undefined)
  for (let i = 0; i < SLOW_COUNT; i++) await createEndpoint(slowOwner, slow.url)
  for (let i = 0; i < DEAD_COUNT; i++) await createEndpoint(deadOwner, dead.url)
  const quick = await startReceiver(t)
  await createEndpoint(quickOwner, quick.url, { event_types: ['posts.created'] })

  for (let i = 0; i < BACKLOG; i++) {
    const product = { sku: `SOAK-${i}`, name: `Product ${i}`, price_amount: 100 }
    const { status, text } = await server.admin.post('/products', product)
    if (status !== 201) throw new Error(text)
  }
  const countPending = async () => {
    const [row] = await database.run(
      `select count(*) as count from work where kind = 'delivery' and status = 'pending'`,
    )
    return Number(row?.count)
  }
  await waitUntil(async () => (await countPending()) > BACKLOG * (SLOW_COUNT + DEAD_COUNT) * 0.99, 60_000)

  const sentAt = new Map<string, number>()
  for (let i = 0; i < EVENTS; i++) {
    const next = wait(1_000)
    const { body, text } = await quickOwner.post('/users/me/posts', { title: `Post ${i}`, body: 'A post.' })
    if (!body.data) throw new Error(text)
    sentAt.set(body.data.id, performance.now())
    await next
  }
  await waitUntil(() => quick.received.length >= EVENTS, 30_000).catch(() => undefined)
  const times = quick.received.map(({ at, body }) => at - (sentAt.get(body.data.resource_id) ?? Number.NaN))
  const summary = summarize(times)
  console.log(
    `  quick: ${times.length} of ${EVENTS} arrived, ${formatTimes(summary)} ms after the response (p50, p99, max)`,
  )
  for (const [name, { counts }] of Object.entries({ slow, dead }))
    console.log(`  ${name}: ${counts.arrived} requests, at most ${counts.most} of ${PLACES} places at a time`)
  console.log(`  ${await countPending()} deliveries wait`)
  failIf(times.length < EVENTS || summary.max > MAX_MS)
}
