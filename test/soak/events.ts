/**
 * Kills one of two servers and PostgreSQL (-9) in turn while clients write, streams follow the feed, a client polls it,
 * and webhooks are delivered. Then checks that every committed change has one event, which reached every consumer.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { openDatabase } from '../../drizzle/client/index.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { ADMIN_KEY, type Client, type Json } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { readFeed } from '../helpers/events.ts'
import { findFreePort } from '../helpers/listen.ts'
import type { RunningProcess } from '../helpers/process.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { respondWith, startReceiver, verify } from '../helpers/webhook-receiver.ts'
import { createEndpoint, makeDue } from '../helpers/webhooks.ts'
import { type FeedEvent, findConsumerErrors, findHistoryErrors, type StoredRow } from './event-checks.ts'
import { type FeedConsumer, followStream, pollFeed } from './event-consumers.ts'
import { type Contention, type LoggedWrite, runEventWriter } from './event-writer.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'
import { failIf, formatRange, formatTimes, printViolations } from './report.ts'
import { startSoakServer, waitUntilServed } from './server.ts'
import { readNewestRows } from './write-log.ts'

export interface EventsOptions {
  /** The number of kills: of the server, of PostgreSQL, and so on. */
  rounds: number
  /** The number of concurrent writers. */
  clients: number
  /** Minimum and maximum milliseconds of writing before each kill. */
  between: readonly [number, number]
  /** Whether no webhook is rejected, and deliveries that a killed server had claimed are made due before their lease ends. */
  isShort?: boolean
  onRound?: (line: string) => void
}

const PRODUCT_COUNT = 5
/** The types of all writes; not `webhook-endpoints.created`, which may arrive before the secret is known. */
const DELIVERED_TYPES = ['products.*', 'orders.*', 'users.*', 'posts.*']
/** A stream of a part of the events. The others have all. */
const ORDERS_STREAM = 'stream of orders'
/** The share of events whose first webhook the receiver answers with 500. */
const REJECTED_SHARE = 0.02
/** A claim of a killed server ends after this time and 30 s more. */
const WEBHOOK_TIMEOUT_MS = 2_000
/** Time for all deliveries after the last write: a lease, and the pause before a fourth attempt, which is 2 minutes. */
const DRAIN_TIMEOUT_MS = 240_000
/** The current revision of each resource. */
const SELECT_ROWS = [
  ...['users', 'user-profiles', 'posts', 'products', 'orders'],
  ...['sessions', 'api-keys', 'webhook-endpoints'],
]
  .map((type) => `select '${type}' as resource_type, id, revision from ${type.replace('-', '_')}`)
  .join(' union all ')

interface EventsTest {
  t: Owner
  options: EventsOptions
  postgres: PrivatePostgres
  settings: NodeJS.ProcessEnv
  /** The server that is killed, always on the same port. The writers use it. */
  server: RunningProcess
  client: Client
  /** Milliseconds from each kill to the first 200. */
  recoveryTimes: { server: number[]; postgres: number[] }
}

/** @throws Error if the response is not 201 */
async function create(client: Client, path: string, body: unknown): Promise<Json> {
  const reply = await client.post(path, body)
  if (reply.status !== 201) throw new Error(`POST ${path} returned ${reply.text}`)
  return reply.body.data
}

/** Creates the products that all writers change, and an order that keeps them from being deleted. */
async function createSharedProducts(client: Client): Promise<string[]> {
  const productIds: string[] = []
  for (let i = 0; i < PRODUCT_COUNT; i++) {
    const product = { sku: `SHARED-${i}`, name: 'Shared product', price_amount: 1 }
    const { id } = await create(client, '/products', { ...product, status: 'active', stock: 100 })
    productIds.push(id)
  }
  await create(client, '/orders', { items: productIds.map((product_id) => ({ product_id, quantity: 1 })) })
  return productIds
}

/** Waits until all events have a position. */
const waitForPositions = (database: Database): Promise<void> =>
  waitUntil(async () => (await database.run('select 1 from outbox limit 1')).length === 0, DRAIN_TIMEOUT_MS)

/** Starts a receiver that rejects some webhooks. Those with a valid signature are collected. */
async function startCollectingReceiver(t: Owner, rejectedShare: number) {
  const receiver = await startReceiver(t)
  const accepted: FeedEvent[] = []
  const errors: string[] = []
  const rejectedIds = new Set<string>()
  let arrived = 0
  let secret = ''
  receiver.respond = (response, webhook) => {
    arrived += 1
    try {
      verify(secret, webhook)
    } catch (error) {
      errors.push(`webhook ${webhook.headers['webhook-id']}: ${error}`)
    }
    const { data } = webhook.body
    if (data.id !== webhook.headers['webhook-id']) errors.push(`webhook ${data.id} has another id`)
    if (Math.random() < rejectedShare && !rejectedIds.has(data.id)) {
      rejectedIds.add(data.id)
      respondWith(500)(response, webhook)
      return
    }
    accepted.push(data)
    respondWith(200)(response, webhook)
  }
  return {
    url: receiver.url,
    /** The events of accepted webhooks, and what was wrong with webhooks. */
    accepted,
    errors,
    getCounts: () => ({ arrived, rejected: rejectedIds.size }),
    expectSecret(expected: string) {
      secret = expected
    },
  }
}

/** Kills and restarts the server or PostgreSQL. Returns a line with the time. */
async function killAndRestart(test: EventsTest, part: 'server' | 'postgres'): Promise<string> {
  const { t, postgres, settings, server, client, recoveryTimes } = test
  const killedAt = performance.now()
  if (part === 'postgres') {
    await postgres.kill()
    await postgres.start()
  } else {
    server.child.kill('SIGKILL')
    await server.ended
    test.server = await startSoakServer(t, settings)
  }
  await waitUntilServed(client)
  const recoveryTime = performance.now() - killedAt
  recoveryTimes[part].push(recoveryTime)
  return `${part} killed, 200 after ${Math.round(recoveryTime)} ms`
}

/** Runs the writers and the kills. Returns what each writer has logged. */
async function writeAndKill(
  test: EventsTest,
  productIds: readonly string[],
  otherResponses: Map<string, number>,
): Promise<LoggedWrite[][]> {
  const { rounds, clients, between, onRound } = test.options
  let isOver = false
  const contention: Contention = {
    ...{ client: test.client, productIds, orderIds: [], otherResponses },
    isOver: () => isOver,
  }
  const writers = Array.from({ length: clients }, () => runEventWriter(contention))
  for (let round = 1; round <= rounds; round++) {
    await wait(between[0] + Math.random() * (between[1] - between[0]))
    const line = await killAndRestart(test, round % 2 === 1 ? 'server' : 'postgres')
    onRound?.(`round ${round}: ${line}`)
  }
  await wait(between[0])
  isOver = true
  return Promise.all(writers)
}

/** Waits until all events have reached the consumers and the receiver. Returns a line if they do not in time. */
async function drain(database: Database, consumers: readonly FeedConsumer[]): Promise<string[]> {
  const isDrained = async () => {
    const pending = await database.run(`select 1 from webhook_deliveries where status = 'pending' limit 1`)
    if (pending.length > 0) return false
    const [last] = await database.execute<{ all: number; orders: number }>(
      sql`select max(position) as all, max(position) filter (where resource_type = 'orders') as orders from events`,
    )
    return consumers.every(
      ({ name, getPosition }) => getPosition() >= ((name === ORDERS_STREAM ? last?.orders : last?.all) ?? 0),
    )
  }
  return waitUntil(isDrained, DRAIN_TIMEOUT_MS).then(
    () => [],
    () => [`events or deliveries were pending after ${DRAIN_TIMEOUT_MS} ms`],
  )
}

/** Starts the consumers, with cursors of the end of the feed. */
async function startConsumers(t: Owner, client: Client, base: string, otherBase: string) {
  const { cursor } = await readFeed(client)
  const orders = await readFeed(client, '&type=orders.*')
  const headers = { 'x-api-key': ADMIN_KEY }
  return [
    followStream(t, 'stream', { base, headers, path: '/events', cursor }),
    followStream(t, 'stream of the other server', { base: otherBase, headers, path: '/events', cursor }),
    followStream(t, ORDERS_STREAM, { base, headers, path: '/events?type=orders.*', cursor: orders.cursor }),
    pollFeed(client, 'poller', cursor),
  ]
}

function countWrites(writes: readonly LoggedWrite[], events: readonly FeedEvent[]) {
  const made = new Set(events.map(({ request_id }) => request_id))
  const select = (outcome: LoggedWrite['outcome']) => writes.filter((write) => write.outcome === outcome)
  return {
    acknowledged: select('acknowledged').length,
    refused: select('refused').length,
    unknown: select('unknown').length,
    // Made, although the client does not know the outcome.
    unknownMade: select('unknown').filter(({ requestIds }) => requestIds.some((id) => made.has(id))).length,
    // Acknowledged with a stored response.
    replayed: writes.filter(({ isReplayed }) => isReplayed).length,
  }
}

const countDistinct = (events: readonly FeedEvent[]) => new Set(events.map(({ id }) => id)).size

const getData = ({ seen }: FeedConsumer) => seen.map(({ data }) => data)

function summarizeConsumer(consumer: FeedConsumer) {
  const { name, seen, connections } = consumer
  const events = countDistinct(getData(consumer))
  const waits = seen.map(({ at, data }) => at - Date.parse(data.created_at))
  return { name, events, repeated: seen.length - events, connections, longestWait: Math.max(0, ...waits) }
}

/** Reads the rows of all resources, and the data of those that have a collection of their own. */
async function readRows(database: Database, client: Client): Promise<StoredRow[]> {
  const rows = await database.execute<StoredRow>(sql.raw(SELECT_ROWS))
  const data = new Map<string, Json>()
  for (const path of ['/products', '/orders', '/users']) {
    for (const row of await readNewestRows(client, path, () => true)) data.set(row.id, row)
  }
  return rows.map((row) => ({ ...row, data: data.get(row.id) }))
}

/** Checks that each event has one delivery, which succeeded. */
async function findDeliveryErrors(database: Database, events: readonly FeedEvent[]): Promise<string[]> {
  const deliveries = await database.execute<{ event_id: string; count: number }>(
    sql`select event_id, count(*) as count from webhook_deliveries where status = 'succeeded' group by event_id`,
  )
  const counts = new Map(deliveries.map(({ event_id, count }) => [event_id, count]))
  return events.flatMap(({ id, position }) =>
    counts.get(id) === 1 ? [] : [`event ${position} has ${counts.get(id) ?? 0} successful deliveries`],
  )
}

/** Reads how many milliseconds events waited for their position. */
async function readPositionDelays(database: Database, after: number) {
  const [delays] = await database.execute<{
    p50: number
    p99: number
    max: number
  }>(sql`select percentile_cont(0.5) within group (order by delay) as p50,
       percentile_cont(0.99) within group (order by delay) as p99, max(delay) as max
     from (select extract(epoch from updated_at - created_at)::float8 * 1000 as delay
       from events where position > ${after}) as delays`)
  if (!delays) throw new Error('An aggregate returned no row')
  return delays
}

/** Runs the test. @throws SkippedError if PostgreSQL is not installed */
export async function eventRounds(t: Owner, options: EventsOptions) {
  const postgres = await startPrivatePostgres(t)
  const settings = {
    ...{ DATA_DIR: testFolder(t), DATABASE_URL: postgres.url, WEBHOOK_TIMEOUT: String(WEBHOOK_TIMEOUT_MS) },
    PORT: String(await findFreePort()),
  }
  const server = await startSoakServer(t, settings)
  const other = await startSoakServer(t, { ...settings, PORT: '0' })
  const client = server.admin
  const recoveryTimes: EventsTest['recoveryTimes'] = { server: [], postgres: [] }
  const test: EventsTest = { t, options, postgres, settings, server, client, recoveryTimes }
  const openChecker = () => openDatabase({ url: postgres.url, poolSize: 1, statementTimeout: 0 })

  const productIds = await createSharedProducts(client)
  const receiver = await startCollectingReceiver(t, options.isShort ? 0 : REJECTED_SHARE)
  const endpoint = await createEndpoint(client, receiver.url, { event_types: DELIVERED_TYPES })
  receiver.expectSecret(endpoint.secret)
  const before = await openChecker()
  await waitForPositions(before).finally(() => before.close())
  const setup = await readFeed(client)
  const consumers = await startConsumers(t, client, server.url, other.url)

  const otherResponses = new Map<string, number>()
  const logs = await writeAndKill(test, productIds, otherResponses)

  const database = await openChecker()
  try {
    await waitForPositions(database)
    if (options.isShort) await makeDue(database, endpoint.id)
    const timeouts = await drain(database, consumers)
    await Promise.all(consumers.map(({ stop }) => stop()))
    const { events } = await readFeed(client)
    const rows = await readRows(database, client)
    const written: FeedEvent[] = events.slice(setup.events.length)
    const orders = written.filter(({ resource_type }) => resource_type === 'orders')
    const { accepted, errors } = receiver
    const received = { seen: accepted, canRepeat: true, isOrdered: false }
    return {
      version: postgres.version,
      writes: countWrites(logs.flat(), written),
      otherResponses: Object.fromEntries(otherResponses),
      events: written.length,
      consumers: consumers.map(summarizeConsumer),
      webhooks: { ...receiver.getCounts(), repeated: accepted.length - countDistinct(accepted) },
      positionDelays: await readPositionDelays(database, setup.events.length),
      recoveryTimes,
      violations: [
        ...timeouts,
        ...errors,
        ...findHistoryErrors({ events, setupCount: setup.events.length, rows, logs }),
        ...consumers.flatMap((consumer) => [
          ...consumer.failures.map((line) => `${consumer.name}: ${line}`),
          ...findConsumerErrors(
            consumer.name,
            { seen: getData(consumer), canRepeat: consumer.name !== 'poller', isOrdered: true },
            consumer.name === ORDERS_STREAM ? orders : written,
          ),
        ]),
        ...findConsumerErrors('the receiver', received, written),
        ...(await findDeliveryErrors(database, written)),
      ],
    }
  } finally {
    await database.close()
  }
}

export async function soakEvents(t: Owner, rounds: number): Promise<void> {
  const clients = 12
  console.log(
    `kill -9 of one of two servers and of PostgreSQL in turn while ${clients} clients write, ${rounds} times; events`,
  )
  const report = await eventRounds(t, { rounds, clients, between: [1_000, 3_000], onRound: console.log })
  const { writes, otherResponses, webhooks, positionDelays, violations } = report
  console.log(
    `${report.version}: ${writes.acknowledged} writes acknowledged (${writes.replayed} by a replay), ${writes.refused} refused,` +
      ` ${writes.unknown} in doubt, ${writes.unknownMade} of them made; ${report.events} events; ${violations.length} violations`,
  )
  for (const { name, events, repeated, connections, longestWait } of report.consumers) {
    console.log(
      `  ${name}: ${events} events, ${repeated} repeated, ${connections} connections or pages,` +
        ` longest wait ${Math.round(longestWait)} ms`,
    )
  }
  const { arrived, rejected, repeated } = webhooks
  console.log(`  webhooks: ${arrived} arrived, ${rejected} of them rejected; ${repeated} events repeated`)
  console.log(`  ms until the position: ${formatTimes(positionDelays)} (p50, p99, max)`)
  for (const [part, times] of Object.entries(report.recoveryTimes)) {
    console.log(
      `  ${times.length} kills of ${part}: first 200 after ${formatRange(times)} ms (min, median, max)`,
    )
  }
  console.log(`  other responses: ${JSON.stringify(otherResponses)}`)
  printViolations(violations)
  failIf(Object.keys(otherResponses).some((name) => !/^(?:503|409|no response)/.test(name)))
}
