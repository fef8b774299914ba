/** `npm run bench:citus`: measures the same requests on the bench's PostgreSQL and on a distributed schema of Citus. */
import { openCitusSchema } from './citus-schema.ts'
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import type { BenchDatabase, Sql } from './database.ts'
import { formatMeasurement, type Measurement, measureLoad } from './measure.ts'
import { readOptions } from './options.ts'
import { createOrderCalls, deleteOrders } from './orders.ts'
import type { Samples } from './samples.ts'
import { computeSpread, formatRatio } from './statistics.ts'
import { createCheckedCalls, FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import {
  createSchemaTarget,
  createTokenHeaders,
  PREFIX,
  postResource,
  serviceWithKey,
} from './targets/resource-api.ts'
import { type Call, send, type Target } from './targets/target.ts'
import { workloads } from './workloads.ts'

const ITEMS_PER_ORDER = 3
const ORDERS_OF_MEMBER = 20
const MEMBER = { name: 'Bench', email: 'member@bench.example', password: 'bench-member-bench-member' }

/** A database and the service on it. */
interface Side {
  database: Pick<BenchDatabase, 'sql' | 'readCpu'>
  process: TargetProcess
}

interface CitusWorkload {
  title: string
  createCalls(side: Side, samples: Samples): Promise<readonly Call[]>
}

/** Returns a workload of `npm run bench`. Its responses are compared with the rows of the database. */
function getCheckedWorkload(name: string): CitusWorkload {
  const workload = workloads.find((candidate) => candidate.name === name)
  if (!workload) throw new Error(`There is no workload ${name}`)
  return {
    title: `${name}: ${workload.title}`,
    createCalls: ({ process, database }, samples) =>
      createCheckedCalls(process, workload, { database, samples }),
  }
}

/** Creates a member with a page of orders, and the request for them. */
async function createOwnOrderCalls({ process: { base, headers } }: Side): Promise<Call[]> {
  await postResource(base, '/users', MEMBER, headers)
  const member = { base, headers: await createTokenHeaders(base, MEMBER) }
  const orders = await createOrderCalls({ base, headers }, ITEMS_PER_ORDER)
  for (const call of orders.slice(0, ORDERS_OF_MEMBER)) {
    const { status, text } = await send(base, { ...call, headers: member.headers })
    if (status !== 201) throw new Error(`The order returned ${status}: ${text}`)
  }
  const call = { method: 'GET', path: `${PREFIX}/orders`, headers: member.headers }
  const { data }: { data: unknown[] } = JSON.parse((await send(base, call)).text)
  if (data.length !== ORDERS_OF_MEMBER) throw new Error(`The member has ${data.length} orders`)
  return [call]
}

const citusWorkloads: readonly CitusWorkload[] = [
  getCheckedWorkload('W1'),
  getCheckedWorkload('W4'),
  { title: '20 orders of a member, by the member', createCalls: createOwnOrderCalls },
  getCheckedWorkload('W6'),
  {
    title: 'a new order of three items',
    createCalls: ({ process }) => createOrderCalls(process, ITEMS_PER_ORDER),
  },
]

/** Deletes what measurements created, also those of a run that failed. */
async function prepareRows(sql: Sql): Promise<void> {
  await deleteOrders(sql)
  await sql`delete from users where email = ${MEMBER.email}`
  await sql`truncate outbox, events`
  await sql`vacuum (analyze) users, products, orders, order_products`
}

/** Measures a workload. Returns the measurements of each side, one for each round. */
async function measureSides(
  { options, samples, temporaryFolder }: BenchContext,
  sides: readonly Side[],
  { title, createCalls }: CitusWorkload,
): Promise<Measurement[][]> {
  const loads: ((seconds: number) => Promise<Measurement>)[] = []
  for (const side of sides) {
    const calls = await createCalls(side, samples)
    const context = { options, temporaryFolder, database: side.database }
    loads.push((seconds) => measureLoad(context, side.process, calls, seconds))
  }
  for (const load of loads) await load(options.warmup)
  const results = sides.map((): Measurement[] => [])
  for (let round = 0; round < options.rounds; round++) {
    const order = [...sides.keys()].map((i) => (i + round) % sides.length)
    for (const i of order) {
      const measurement = await loads[i]?.(options.seconds)
      if (!measurement) continue
      results[i]?.push(measurement)
      const name = sides[i]?.process.target.name.padEnd(12)
      const line = `${formatMeasurement(measurement)}, p99 ${measurement.p99.toFixed(1)} ms`
      console.log(`${title}, ${round + 1} ${name} ${line}`)
    }
  }
  assertNoFailures(results.flat())
  return results
}

/** Formats a row of the table: plain PostgreSQL / Citus. */
function formatRow(title: string, [plain = [], citus = []]: readonly Measurement[][]): string {
  const formatMedians = (read: (measurement: Measurement) => number, digits = 0) =>
    [plain, citus].map((list) => computeSpread(list.map(read)).median.toFixed(digits)).join(' / ')
  const formatRatios = (read: (measurement: Measurement) => number) =>
    formatRatio(citus.map(read), plain.map(read))
  const cells = [
    title,
    formatMedians(({ requests, seconds }) => requests / seconds),
    formatMedians(({ p99 }) => p99, 1),
    formatMedians(({ server }) => server),
    formatMedians(({ postgres }) => postgres),
    formatRatios(({ server }) => server),
    formatRatios(({ postgres }) => postgres),
    formatRatios(({ server, postgres }) => server + postgres),
  ]
  return `| ${cells.join(' | ')} |`
}

const HEADER = [
  '| PostgreSQL / Citus | Requests/s | p99, ms | CPU of the server, µs | CPU of the database, µs | Ratio: server | Ratio: database | Ratio: both |',
  '|---|--:|--:|--:|--:|--:|--:|--:|',
]

async function compareWithCitus(context: BenchContext): Promise<void> {
  const { options, database } = context
  if (options.url === '') throw new Error('--url is missing: the address of a database of Citus')
  const citus = await openCitusSchema(options.url, database)
  const databases = [database, citus]
  try {
    for (const { sql } of databases) await prepareRows(sql)
    const targets: Target[] = [serviceWithKey, createSchemaTarget(options.url, citus.schema)]
    const sides: Side[] = []
    for (const [i, side] of databases.entries()) {
      const target = targets[i]
      if (!target) continue
      const process = await startTarget(context, target, FIRST_PORT + i, { name: 'citus', etags: false })
      sides.push({ database: side, process })
    }
    const rows: string[] = []
    for (const workload of citusWorkloads)
      rows.push(formatRow(workload.title, await measureSides(context, sides, workload)))
    console.log([...HEADER, ...rows].join('\n'))
    for (const { process } of sides) await process.stop()
  } finally {
    for (const { sql } of databases) await prepareRows(sql)
    await citus.close()
  }
}

await runCommand(
  () =>
    readOptions(
      'bench:citus',
      ['url', 'seconds', 'warmup', 'rounds', 'connections', 'pool', 'generator', 'users', 'node', 'flags'],
      process.argv.slice(2),
    ),
  compareWithCitus,
)
