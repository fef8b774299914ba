/** `npm run bench:events`: measures writes with and without events, and prints the ratio of their CPU time. */
import { v7 as uuid } from 'uuid'
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { readProcessCpu } from './cpu.ts'
import { formatMeasurement, measureLoad } from './measure.ts'
import { readOptions } from './options.ts'
import { count, createOrderCalls, deleteOrders } from './orders.ts'
import { computeSpread, formatRatio } from './statistics.ts'
import { FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { PREFIX, postResource, serviceWithKey, serviceWithoutEvents } from './targets/resource-api.ts'
import { type Call, send } from './targets/target.ts'

const ITEMS_PER_ORDER = 10
const LARGE_POSTS = 20
const LARGE_BODY_LENGTH = 100_000
const POSTS_PER_USER = 10_000

const targets = [serviceWithKey, serviceWithoutEvents]

interface EventWorkload {
  name: string
  title: string
  createCalls(context: BenchContext, process: TargetProcess): Promise<Call[]>
}

const workloads: readonly EventWorkload[] = [
  {
    name: 'W5',
    title: 'a new product',
    createCalls: async (_, process) => [addHeaders(process, process.target.api.createProduct())],
  },
  {
    name: 'W6',
    title: "a product's stock changed",
    createCalls: async ({ samples }, process) =>
      samples.products.map((product) => addHeaders(process, process.target.api.setStock(product))),
  },
  {
    name: 'order',
    title: 'a new order of ten items',
    createCalls: (_, process) => createOrderCalls(process, ITEMS_PER_ORDER),
  },
  {
    name: 'post',
    title: 'the title of a post of 100 kB changed',
    async createCalls(_, { base, headers }) {
      const calls: Call[] = []
      for (const i of count(LARGE_POSTS)) {
        const body = 'All work and no play. '.repeat(LARGE_BODY_LENGTH).slice(0, LARGE_BODY_LENGTH)
        const { id } = await postResource(base, '/users/me/posts', { title: `Post ${i}`, body }, headers)
        const path = `${PREFIX}/users/me/posts/${id}`
        calls.push({ method: 'PATCH', path, headers, body: '{"title":"Title #########"}' })
      }
      return calls
    },
  },
]

const addHeaders = ({ headers }: TargetProcess, call: Call): Call => ({ ...call, headers })

const formatTime = (microseconds: readonly number[]) => `${computeSpread(microseconds).median.toFixed(0)} us`

/** Prints the figures of one kind of write. */
function print(title: string, [withEvents = [], without = []]: readonly (readonly number[])[]): void {
  console.log(
    `${title}: ${formatTime(without)} without events, ${formatTime(withEvents)} with: ${formatRatio(withEvents, without)} times`,
  )
}

/** Measures a workload: microseconds of CPU of server and PostgreSQL for each request, by target and round. */
async function measureRequests(
  context: BenchContext,
  running: readonly TargetProcess[],
  workload: EventWorkload,
): Promise<number[][]> {
  const { options, database } = context
  const calls: Call[][] = []
  for (const process of running) calls.push(await workload.createCalls(context, process))
  for (const [i, process] of running.entries())
    await measureLoad(context, process, calls[i] ?? [], options.warmup)
  const times = running.map((): number[] => [])
  for (let round = 0; round < options.rounds; round++) {
    const order = [...running.keys()].map((i) => (i + round) % running.length)
    for (const i of order) {
      const process = running[i]
      if (!process) continue
      if (workload.name === 'W5') await database.deleteWrittenRows()
      const measurement = await measureLoad(context, process, calls[i] ?? [], options.seconds)
      assertNoFailures([measurement])
      times[i]?.push(measurement.server + measurement.postgres)
      console.log(
        `${workload.name} ${round + 1} ${process.target.name.padEnd(14)} ${formatMeasurement(measurement)}`,
      )
    }
  }
  return times
}

/** Measures the deletion of users with many posts: microseconds of CPU for each, by target and round. */
async function measureUserDeletions(
  { database, options }: BenchContext,
  running: readonly TargetProcess[],
): Promise<number[][]> {
  const { sql } = database
  const times = running.map((): number[] => [])
  for (let round = 0; round < options.rounds; round++) {
    for (const [i, { base, headers, pid, target }] of running.entries()) {
      const id = uuid()
      await sql`insert into users (id, name, email) values (${id}, 'Bench', ${`${id}@example.com`})`
      await sql`insert into posts (id, user_id, title, body) select gen_random_uuid(), ${id}, 'Post ' || n, 'A short text'
        from generate_series(1, ${POSTS_PER_USER}) as n`
      const [serverBefore, postgresBefore] = [readProcessCpu(pid), database.readCpu()]
      const started = performance.now()
      const { status, text } = await send(base, { method: 'DELETE', path: `${PREFIX}/users/${id}`, headers })
      if (status !== 204) throw new Error(`The deletion returned ${status}: ${text}`)
      const elapsed = performance.now() - started
      const cpu = readProcessCpu(pid) - serverBefore + database.readCpu() - postgresBefore
      times[i]?.push(cpu)
      console.log(
        `user ${round + 1} ${target.name.padEnd(14)} ${elapsed.toFixed(0)} ms, CPU ${(cpu / 1000).toFixed(0)} ms`,
      )
    }
  }
  return times
}

async function deleteWrittenRows({ database: { sql } }: BenchContext): Promise<void> {
  await deleteOrders(sql)
  await sql`delete from posts where length(body) = ${LARGE_BODY_LENGTH}`
  await sql`truncate outbox, events`
}

async function compareEvents(context: BenchContext): Promise<void> {
  const running: TargetProcess[] = []
  for (const [i, target] of targets.entries())
    running.push(await startTarget(context, target, FIRST_PORT + i, { name: 'events', etags: false }))
  try {
    for (const workload of workloads) print(workload.title, await measureRequests(context, running, workload))
    print(`a user with ${POSTS_PER_USER} posts deleted`, await measureUserDeletions(context, running))
  } finally {
    for (const process of running) await process.stop()
    await deleteWrittenRows(context)
  }
}

await runCommand(
  () =>
    readOptions(
      'bench:events',
      ['seconds', 'warmup', 'rounds', 'connections', 'pool', 'generator', 'users', 'node', 'flags'],
      process.argv.slice(2),
    ),
  compareEvents,
)
