/**
 * `npm run bench:rows`: measures what writes cost in batches of 100, compared with a request for each, and exports and
 * imports compared with `copy`.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type BenchContext, runCommand } from './command.ts'
import { readProcessCpu } from './cpu.ts'
import { measureExports } from './exports.ts'
import { type Figure, printFigures } from './goals.ts'
import { measureImports } from './imports.ts'
import { readOptions } from './options.ts'
import { LOAD_CORE } from './processes.ts'
import { computeSpread } from './statistics.ts'
import { FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { PREFIX, serviceWithKey } from './targets/resource-api.ts'

const BATCH_SIZE = 100
/** Requests in progress. */
const CONCURRENCY = 8
/** Batches of one measurement: CPU time is counted in steps of 10 ms. */
const SINGLE_BATCHES = 20
const BATCHES = 60

interface Operation {
  method: string
  path: string
  body?: object
}

type Send = (operation: Operation) => Promise<Record<string, unknown>>

let count = 0
const createProduct = () => {
  count += 1
  return { sku: `BENCH-${count}`, name: 'Tea', price_amount: 100, stock: 5 }
}

const createCreations = (): Operation[] =>
  Array.from({ length: BATCH_SIZE }, () => ({ method: 'POST', path: '/products', body: createProduct() }))

/** Writes each product four times. @param getPath returns the path of the product that operation n creates */
const createProductWrites = (n: number, getPath: (n: number) => string): Operation[] => [
  { method: 'POST', path: '/products', body: createProduct() },
  { method: 'PATCH', path: getPath(n), body: { stock: 7 } },
  { method: 'PUT', path: getPath(n), body: createProduct() },
  { method: 'DELETE', path: getPath(n) },
]

const createMixed = (): Operation[] =>
  Array.from({ length: BATCH_SIZE / 4 }, (_, i) =>
    createProductWrites(i * 4, (n) => `/products/$${n}`),
  ).flat()

function createSend({ port, headers }: TargetProcess): Send {
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY })
  return async ({ method, path, body }) => {
    const text = body && JSON.stringify(body)
    const type: Record<string, string> = text === undefined ? {} : { 'content-type': 'application/json' }
    const options = { host: '127.0.0.1', port, method, path: `${PREFIX}${path}`, agent }
    const sent = request({ ...options, headers: { ...headers, ...type } })
    sent.end(text)
    // The event has this argument.
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const received = String(await buffer(response))
    if ((response.statusCode ?? 0) >= 300) throw new Error(`${method} ${path}: ${received}`)
    return received === '' ? {} : JSON.parse(received).data
  }
}

/** Calls `work` a number of times, some at the same time. */
async function repeat(times: number, concurrency: number, work: () => Promise<unknown>): Promise<void> {
  let left = times
  const workers = Array.from({ length: concurrency }, async () => {
    while (left > 0) {
      left -= 1
      await work()
    }
  })
  await Promise.all(workers)
}

interface Kind {
  title: string
  /** Of the CPU of single requests. */
  goal: number
  /** Writes as many rows as one batch, with a request for each operation. */
  writeSingly(send: Send): Promise<void>
  createOperations(): Operation[]
}

const kinds: readonly Kind[] = [
  {
    title: '100 creations',
    goal: 0.25,
    createOperations: createCreations,
    async writeSingly(send) {
      const operations = createCreations()
      await repeat(BATCH_SIZE, CONCURRENCY, async () => send(operations.pop() ?? { method: '', path: '' }))
    },
  },
  {
    title: '100 mixed operations',
    goal: 0.5,
    createOperations: createMixed,
    writeSingly: (send) =>
      repeat(BATCH_SIZE / 4, CONCURRENCY, async () => {
        let id: unknown
        for (const operation of createProductWrites(0, () => '')) {
          const path = operation.path === '' ? `/products/${id}` : operation.path
          const written = await send({ ...operation, path })
          id ??= written.id
        }
      }),
  },
]

/** Milliseconds of CPU per 100 operations. */
interface Cost {
  server: number
  postgres: number
  total: number
}

/** Measures one kind in several rounds: milliseconds of CPU per 100 operations. */
async function measureKind(context: BenchContext, target: TargetProcess, kind: Kind): Promise<Figure[]> {
  const { database, options } = context
  const send = createSend(target)
  const sendBatch = () =>
    send({ method: 'POST', path: '/batches', body: { operations: kind.createOperations() } })
  /** Returns the milliseconds of CPU of the server and of PostgreSQL for one batch. */
  const measure = async (batches: number, write: () => Promise<unknown>): Promise<Cost> => {
    const before = [readProcessCpu(target.pid), database.readCpu()]
    await write()
    await database.waitUntilIdle()
    const [server = 0, postgres = 0] = [readProcessCpu(target.pid), database.readCpu()].map(
      (after, i) => (after - (before[i] ?? 0)) / 1_000 / batches,
    )
    await database.deleteWrittenRows()
    return { server, postgres, total: server + postgres }
  }
  const writeSingly = () => repeat(SINGLE_BATCHES, 1, () => kind.writeSingly(send))
  const writeBatches = () => repeat(BATCHES, 2, sendBatch)
  await writeSingly()
  await writeBatches()
  await database.deleteWrittenRows()
  const rounds: { single: Cost; batch: Cost; ratio: number }[] = []
  for (let i = 0; i < options.rounds; i++) {
    const single = await measure(SINGLE_BATCHES, writeSingly)
    const batch = await measure(BATCHES, writeBatches)
    rounds.push({ single, batch, ratio: batch.total / single.total })
  }
  const ratio = computeSpread(rounds.map((round) => round.ratio))
  const format = (name: 'single' | 'batch') => {
    const [server, postgres] = (['server', 'postgres'] as const).map((part) =>
      computeSpread(rounds.map((round) => round[name][part])).median.toFixed(1),
    )
    return `${server} ms server, ${postgres} ms PostgreSQL`
  }
  return [
    { name: `${kind.title} as requests`, value: format('single') },
    {
      name: `${kind.title} as a batch`,
      value: `${format('batch')}, ${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)})`,
      goal: [`at most ${kind.goal} of the requests`, ratio.median <= kind.goal],
    },
  ]
}

async function measureBatches(context: BenchContext): Promise<boolean> {
  // The requests are sent by this process.
  execFileSync('taskset', ['-acp', String(LOAD_CORE), String(process.pid)], { stdio: 'ignore' })
  const target = await startTarget(context, serviceWithKey, FIRST_PORT, { name: 'batches', etags: false })
  try {
    const figures: Figure[] = []
    for (const kind of kinds) figures.push(...(await measureKind(context, target, kind)))
    return printFigures('CPU per 100 operations', figures)
  } finally {
    await target.stop()
  }
}

const parts = new Map([
  // The batches bind this process, from which psql and curl are started, to a core.
  ['exports', measureExports],
  ['imports', measureImports],
  ['batches', measureBatches],
])

await runCommand(
  () =>
    readOptions(
      'bench:rows',
      ['parts', 'rows', 'rounds', 'pool', 'users', 'node', 'flags', 'profile'],
      process.argv.slice(2),
      { rounds: '2' },
    ),
  async (context) => {
    for (const [name, measure] of parts) {
      if (context.options.parts.includes(name) && !(await measure(context))) process.exitCode = 1
    }
  },
)
