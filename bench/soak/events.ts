/**
 * Kills one of two servers and PostgreSQL (-9) in turn while clients write, streams follow the feed, a client polls it,
 * and webhooks are delivered. Then checks that every committed change has one event, which reached every consumer.
 */
import { sql } from 'drizzle-orm'
import { openDatabase } from '../../packages/database/src/client/index.ts'
import type { Database } from '../../packages/database/src/client/types.ts'
import { ADMIN_KEY, type Client } from '../../packages/testing/helpers/app.ts'
import { type Owner, testFolder } from '../../packages/testing/helpers/database.ts'
import { readFeed } from '../../packages/testing/helpers/events.ts'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import {
  createEndpoint,
  makeDue,
  respondWith,
  startReceiver,
  verify,
} from '../../packages/testing/helpers/webhooks.ts'
import { type FeedEvent, findConsumerErrors, findHistoryErrors } from './event-checks.ts'
import { type FeedConsumer, followStream, pollFeed } from './event-consumers.ts'
import {
  createSharedProducts,
  readCompleteFeed,
  type WriteOptions,
  writeDuringKills,
} from './event-writer.ts'
import { countWrites, readResources, readRows } from './kill.ts'
import { startPrivatePostgres } from './private-postgres.ts'
import { failIf, formatRange, formatTimes, printViolations } from './report.ts'
import { startSoakServer, waitUntilServed } from './server.ts'

export interface EventsOptions extends WriteOptions {
  /** What is killed, in turn; by default the server, then PostgreSQL. */
  victims?: readonly ('server' | 'postgres')[]
  /** Whether no webhook is rejected, and deliveries that a killed server had claimed are made due before their lease ends. */
  isShort?: boolean
}

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

/** Waits until all events have reached the consumers and the receiver. Returns a line if they do not in time. */
async function drain(database: Database, consumers: readonly FeedConsumer[]): Promise<string[]> {
  const isDrained = async () => {
    const pending = await database.run(
      `select 1 from work where kind = 'delivery' and status = 'pending' limit 1`,
    )
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

const countDistinct = (events: readonly FeedEvent[]) => new Set(events.map(({ id }) => id)).size

const getData = ({ seen }: FeedConsumer) => seen.map(({ data }) => data)

function summarizeConsumer(consumer: FeedConsumer) {
  const { name, seen, connections } = consumer
  const events = countDistinct(getData(consumer))
  const waits = seen.map(({ at, data }) => at - Date.parse(data.created_at))
  return { name, events, repeated: seen.length - events, connections, longestWait: Math.max(0, ...waits) }
}

/** Checks that each event has one delivery, which succeeded. */
async function findDeliveryErrors(database: Database, events: readonly FeedEvent[]): Promise<string[]> {
  const deliveries = await database.execute<{ event_id: string; count: number }>(
    sql`select event_id, count(*) as count from work where kind = 'delivery' and status = 'succeeded' group by event_id`,
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
  const { victims = ['server', 'postgres'], isShort = false } = options
  const postgres = await startPrivatePostgres(t)
  const settings = {
    ...{ DATA_DIR: testFolder(t), DATABASE_URL: postgres.url, WEBHOOK_TIMEOUT: String(WEBHOOK_TIMEOUT_MS) },
    PORT: String(await findFreePort()),
  }
  /** The server that is killed, always on the same port. The writers use it. */
  let server = await startSoakServer(t, settings)
  const client = server.admin
  const other = await startSoakServer(t, { ...settings, PORT: '0' })
  const productIds = await createSharedProducts(client)
  const receiver = await startCollectingReceiver(t, isShort ? 0 : REJECTED_SHARE)
  const endpoint = await createEndpoint(client, receiver.url, { event_types: DELIVERED_TYPES })
  receiver.expectSecret(endpoint.secret)
  const setup = await readCompleteFeed(client)
  const consumers = await startConsumers(t, client, server.url, other.url)

  /** Milliseconds from each kill to the first 200. */
  const recoveryTimes = { server: [] as number[], postgres: [] as number[] }
  const kill = async (round: number) => {
    const victim = victims[(round - 1) % victims.length] ?? 'server'
    const killedAt = performance.now()
    if (victim === 'postgres') {
      await postgres.kill()
      await postgres.start()
    } else {
      server.child.kill('SIGKILL')
      await server.ended
      server = await startSoakServer(t, settings)
    }
    await waitUntilServed(client)
    const recoveryTime = performance.now() - killedAt
    recoveryTimes[victim].push(recoveryTime)
    return `${victim} killed, 200 after ${Math.round(recoveryTime)} ms`
  }
  const { logs, otherResponses } = await writeDuringKills(client, productIds, options, kill)
  const { events, write } = await readCompleteFeed(client)
  logs.push([write])

  const database = await openDatabase({ url: postgres.url, poolSize: 1, statementTimeout: 0 })
  try {
    if (isShort) await makeDue(database, endpoint.id)
    const timeouts = await drain(database, consumers)
    await Promise.all(consumers.map(({ stop }) => stop()))
    const rows = await readRows(database, await readResources(client))
    const written: FeedEvent[] = events.slice(setup.events.length)
    const orders = written.filter(({ resource_type }) => resource_type === 'orders')
    const { accepted, errors } = receiver
    const received = { seen: accepted, canRepeat: true, isOrdered: false }
    return {
      version: postgres.version,
      writes: countWrites(logs.flat(), written),
      otherResponses,
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
        // Its endpoint existed before the last event of the setup.
        ...findConsumerErrors('the receiver', received, events.slice(setup.events.length - 1)),
        ...(await findDeliveryErrors(database, written)),
      ],
    }
  } finally {
    await database.close()
  }
}

async function soak(t: Owner, options: Pick<EventsOptions, 'rounds' | 'victims' | 'keyedShare' | 'clients'>) {
  const report = await eventRounds(t, { ...options, between: [1_000, 3_000], onRound: console.log })
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
  for (const [part, times] of Object.entries(report.recoveryTimes).filter(([, { length }]) => length > 0)) {
    console.log(
      `  ${times.length} kills of ${part}: first 200 after ${formatRange(times)} ms (min, median, max)`,
    )
  }
  console.log(`  other responses: ${JSON.stringify(otherResponses)}`)
  printViolations(violations)
  failIf(Object.keys(otherResponses).some((name) => !/^(?:503|409|no response)/.test(name)))
}

export async function soakEvents(t: Owner, rounds: number): Promise<void> {
  console.log(
    `kill -9 of one of two servers and of PostgreSQL in turn while 12 clients write, ${rounds} times`,
  )
  await soak(t, { rounds, clients: 12 })
}

/** Each write but a deletion is sent with a key until its outcome is known: none may be lost or made twice. */
export async function soakCrashes(t: Owner, rounds: number): Promise<void> {
  console.log(`kill -9 of PostgreSQL while 24 clients write with keys, ${rounds} times`)
  await soak(t, { rounds, clients: 24, victims: ['postgres'], keyedShare: 1 })
}
