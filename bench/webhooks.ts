/** `npm run bench:webhooks`: measures deliveries to an endpoint: alone, with a dead and a hanging one, and of a backlog. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { type BenchContext, runCommand } from './command.ts'
import { readProcessCpu } from './cpu.ts'
import { readOptions } from './options.ts'
import { LOAD_CORE } from './processes.ts'
import { computePercentile } from './statistics.ts'
import { FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { serviceForWebhooks } from './targets/resource-api.ts'
import { send } from './targets/target.ts'

const CHANGES_PER_SECOND = 1_000
const BATCH_INTERVAL_MS = 100
const BATCH_SIZE = (CHANGES_PER_SECOND * BATCH_INTERVAL_MS) / 1_000
/** Time for the deliveries that are left when the changes end. */
const DRAIN_TIMEOUT_MS = 60_000
/** Deliveries that wait when their speed is measured. */
const BACKLOG = 200_000

async function startServer(listener: RequestListener) {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server on a TCP port has such an address.
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hook`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Answers 204, and records when each event arrived first. */
async function startReceiver() {
  /** Milliseconds from the change to the arrival, by the id of the event. */
  const delays = new Map<string, number>()
  let repetitions = 0
  const server = await startServer(async (request, response) => {
    const body = await text(request)
    const now = Date.now()
    response.writeHead(204).end()
    const id = String(request.headers['webhook-id'])
    const { timestamp }: { timestamp: string } = JSON.parse(body)
    if (delays.has(id)) repetitions += 1
    else delays.set(id, now - Date.parse(timestamp))
  })
  return { ...server, delays, countRepetitions: () => repetitions }
}

/** Accepts requests and never answers. */
const startHanging = () => startServer(() => undefined)

/** Returns a URL that refuses connections. */
async function findDeadUrl(): Promise<string> {
  const server = await startServer(() => undefined)
  server.close()
  return server.url
}

async function createEndpoint({ base, headers }: TargetProcess, url: string): Promise<void> {
  const body = JSON.stringify({ url, event_types: ['products.updated'] })
  const call = { method: 'POST', path: '/api/v1/webhook-endpoints', headers, body }
  const response = await send(base, call)
  if (response.status !== 201) throw new Error(`The endpoint was refused: ${response.text}`)
}

/** Writes a change of each of some products into the outbox. */
async function writeBatch({ database: { sql } }: BenchContext, count: number): Promise<void> {
  await sql`insert into outbox (type, resource_id, revision, columns, previous, bytes, credential)
    select 'products.updated', id, revision + 1, to_json(products), '{"stock": 8}', 700, 'system'
    from products order by id limit ${count}`
}

/** Writes changes in batches, on schedule. @returns their number */
async function writeChanges(context: BenchContext, seconds: number): Promise<number> {
  const batches = (seconds * 1_000) / BATCH_INTERVAL_MS
  const started = performance.now()
  for (let i = 0; i < batches; i++) {
    await wait(Math.max(0, started + i * BATCH_INTERVAL_MS - performance.now()))
    await writeBatch(context, BATCH_SIZE)
  }
  return batches * BATCH_SIZE
}

/** Stores events, and a delivery of each of them that is due. */
async function fillBacklog({ database: { sql } }: BenchContext): Promise<void> {
  await sql`insert into events (position, resource_type, type, resource_id, revision, columns, previous, bytes, credential)
    select last_position + row_number() over (), 'products', 'products.updated', products.id, revision + 1, to_json(products), '{"stock": 8}', 700, 'system'
    from event_feed cross join products cross join generate_series(1, 100) limit ${BACKLOG}`
  await sql`update event_feed set last_position = (select max(position) from events)`
  await sql`insert into work (kind, endpoint_id, user_id, event_id, event_type, bytes)
    select 'delivery', webhook_endpoints.id, user_id, events.id, type, bytes from events cross join webhook_endpoints`
  await sql`vacuum (analyze) events, work`
}

interface Result {
  perSecond: number
  median: number
  p99: number
  max: number
  missing: number
  repetitions: number
  /** Shares of a core, from 0 to 1. */
  server: number
  postgres: number
}

/** Measures one run, whose first seconds do not count: the JIT compiler optimizes in them. */
async function measureDeliveries(
  context: BenchContext,
  target: TargetProcess,
  hasBacklog = false,
): Promise<Result> {
  const { database, options } = context
  const receiver = await startReceiver()
  const waitForAll = async (count: number) => {
    const deadline = performance.now() + DRAIN_TIMEOUT_MS
    while (receiver.delays.size < count && performance.now() < deadline) await wait(5)
  }
  try {
    await createEndpoint(target, receiver.url)
    if (hasBacklog) await fillBacklog(context)
    if (hasBacklog) await wait(options.warmup * 1_000)
    else await waitForAll(await writeChanges(context, options.warmup))
    receiver.delays.clear()
    const [serverBefore, postgresBefore] = [readProcessCpu(target.pid), database.readCpu()]
    const started = performance.now()
    if (hasBacklog) await wait(options.seconds * 1_000)
    const count = hasBacklog ? receiver.delays.size : await writeChanges(context, options.seconds)
    await waitForAll(count)
    const milliseconds = performance.now() - started
    const delays = [...receiver.delays.values()]
    return {
      perSecond: delays.length / (milliseconds / 1_000),
      median: computePercentile(delays, 0.5),
      p99: computePercentile(delays, 0.99),
      max: computePercentile(delays, 1),
      missing: count - delays.length,
      repetitions: receiver.countRepetitions(),
      server: (readProcessCpu(target.pid) - serverBefore) / 1_000 / milliseconds,
      postgres: (database.readCpu() - postgresBefore) / 1_000 / milliseconds,
    }
  } finally {
    receiver.close()
  }
}

const formatPercent = (share: number) => `${Math.round(share * 100)} %`

function print(title: string, result: Result): void {
  const { perSecond, median, p99, max, missing, repetitions, server, postgres } = result
  console.log(
    `${title}: ${Math.round(perSecond)} deliveries/s, p50 ${median} ms, p99 ${p99} ms, max ${max} ms,` +
      ` server ${formatPercent(server)}, PostgreSQL ${formatPercent(postgres)} of a core` +
      (repetitions > 0 ? `, ${repetitions} arrived again` : ''),
  )
  if (missing > 0) throw new Error(`${missing} events did not arrive`)
}

async function deleteEndpoints({ database: { sql } }: BenchContext): Promise<void> {
  await sql`truncate outbox, events, work`
  await sql`delete from webhook_endpoints`
  await sql`vacuum (analyze) outbox, events, work, webhook_endpoints`
}

async function measureWithTarget(
  context: BenchContext,
  measure: (target: TargetProcess) => Promise<Result>,
): Promise<Result> {
  await deleteEndpoints(context)
  const target = await startTarget(context, serviceForWebhooks, FIRST_PORT, {
    name: 'webhooks',
    etags: false,
  })
  try {
    return await measure(target)
  } finally {
    await target.stop()
    await deleteEndpoints(context)
  }
}

async function compareEndpoints(context: BenchContext): Promise<void> {
  // The receiver and the writer of the changes run in this process.
  execFileSync('taskset', ['-acp', String(LOAD_CORE), String(process.pid)], { stdio: 'ignore' })
  print('one endpoint', await measureWithTarget(context, (target) => measureDeliveries(context, target)))
  const hanging = await startHanging()
  try {
    const result = await measureWithTarget(context, async (target) => {
      await createEndpoint(target, await findDeadUrl())
      await createEndpoint(target, hanging.url)
      return measureDeliveries(context, target)
    })
    print('with a dead and a hanging endpoint', result)
  } finally {
    hanging.close()
  }
  const backlog = await measureWithTarget(context, (target) => measureDeliveries(context, target, true))
  print(`${BACKLOG} deliveries of one endpoint wait`, backlog)
}

await runCommand(
  () =>
    readOptions(
      'bench:webhooks',
      ['seconds', 'warmup', 'pool', 'users', 'node', 'flags', 'profile'],
      process.argv.slice(2),
      {
        seconds: '20',
      },
    ),
  compareEndpoints,
)
