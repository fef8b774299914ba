/** Measures imports of products from CSV beside `\copy` of psql, their memory, and the latency of another user's reads. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createReadStream, writeFileSync } from 'node:fs'
import { Agent, type ClientRequest, get, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { BenchContext } from './command.ts'
import { type Figure, printFigures } from './goals.ts'
import { readPeakMemory, readResidentMemory, resetPeakMemory } from './memory.ts'
import { computePercentile, computeSpread, formatRatio } from './statistics.ts'
import { FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { createTokenHeaders, PREFIX, postResource, serviceWithKey } from './targets/resource-api.ts'

const ROWS = 100_000
const WARMUP_ROWS = 2_000
const COLUMNS = ['sku', 'name', 'description', 'price_amount', 'currency', 'stock', 'status']
/** The rate of an import, as a share of that of `\copy`. */
const MIN_RATE = 1 / 3
/** Megabytes above the idle server. */
const MAX_MEMORY = 80
/** The 99th percentile of the reads of others during an import, as a multiple of the quiet one. */
const MAX_LATENCY = 2
/** Reads of the other user in progress, and the milliseconds between two of them. */
const READERS = 4
const READ_INTERVAL_MS = 5
const QUIET_MS = 5_000
/** For garbage collection of what came before. */
const SETTLING_MS = 3_000

type Values = readonly (string | number)[]

/** Returns the values of a product; no two of them are equal. */
const createValues = (i: number, stock: number): Values => {
  const description = `${'text '.repeat(20)}${i}`
  return [`BENCH-${i}`, `Product ${i}`, description, (i * 7 + stock) % 10_000, 'USD', stock, 'active']
}

function writeCsv(file: string, columns: readonly string[], rows: readonly Values[]): string {
  writeFileSync(file, `${columns.join()}\n${rows.map((row) => `${row.join()}\n`).join('')}`)
  return file
}

/** Writes the files of all measurements: for `\copy` with an id and the text that the search index needs. */
function writeFiles(folder: string) {
  const create = (rows: number, stock: number) =>
    Array.from({ length: rows }, (_, i) => createValues(i, stock))
  const write = (name: string, rows: number, stock: number) =>
    writeCsv(join(folder, `${name}.csv`), COLUMNS, create(rows, stock))
  const complete = create(ROWS, 5).map((row) => {
    const [sku, name, description] = row
    return [randomUUID(), ...row, `"${sku}\n${name}\n${description}"`.toLowerCase()]
  })
  return {
    copied: writeCsv(join(folder, 'copied.csv'), ['id', ...COLUMNS, 'search'], complete),
    warmup: write('warmup', WARMUP_ROWS, 1),
    created: write('created', ROWS, 5),
    changed: write('changed', ROWS, 6),
  }
}

/** Copies a file into the table of products, with an event for each row. @returns seconds */
function copy(url: string, file: string): number {
  const begun = performance.now()
  const statements = [
    `\\copy products (${['id', ...COLUMNS, 'search'].join()}) from '${file}' with (format csv, header)`,
    `insert into outbox (type, resource_id, revision, columns, bytes, credential)
      select 'products.created', id, revision, shown, octet_length(shown::text), 'system'
      from products, lateral (select json_build_object('id', id, 'sku', sku, 'name', name, 'description', description,
        'price_amount', price_amount, 'currency', currency, 'stock', stock, 'status', status, 'created_at', created_at,
        'updated_at', updated_at, 'revision', revision) as shown offset 0) as written
      where sku like 'BENCH-%'`,
  ]
  const args = [
    '-q',
    '--single-transaction',
    '--set=ON_ERROR_STOP=1',
    ...statements.map((each) => `--command=${each}`),
  ]
  execFileSync('psql', [url, ...args])
  return (performance.now() - begun) / 1000
}

const awaitResponse = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    sent.on('response', resolve).on('error', reject)
  })

/** Sends a file as an import. @returns seconds */
async function importFile({ base, headers }: TargetProcess, file: string, query = ''): Promise<number> {
  const begun = performance.now()
  const sent = request(`${base}${PREFIX}/products${query}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'text/csv' },
  })
  createReadStream(file).pipe(sent)
  const response = await awaitResponse(sent)
  const text = await readText(response)
  if (response.statusCode !== 200) throw new Error(`The import was refused: ${text}`)
  return (performance.now() - begun) / 1000
}

/** Creates a user, and returns a function that reads lists as that user until a promise settles. */
async function createReader({ base, headers }: TargetProcess) {
  const user = { email: 'bench-reader@example.com', password: 'bench reader of many lists' }
  await postResource(base, '/users', { name: 'Reader', role: 'manager', ...user }, headers)
  const token = await createTokenHeaders(base, user)
  const agent = new Agent({ keepAlive: true, maxSockets: READERS })

  const readOnce = async () => {
    const begun = performance.now()
    const sent = get(`${base}${PREFIX}/users?limit=20`, { agent, headers: token })
    const response = await awaitResponse(sent)
    await readText(response)
    if (response.statusCode !== 200) throw new Error(`A read returned ${response.statusCode}`)
    return performance.now() - begun
  }

  /** @returns the 99th percentile in milliseconds */
  return async (until: Promise<unknown>): Promise<number> => {
    const latencies: number[] = []
    let isOver = false
    const end = () => {
      isOver = true
    }
    until.then(end, end)
    const readers = Array.from({ length: READERS }, async () => {
      while (!isOver) {
        latencies.push(await readOnce())
        await wait(READ_INTERVAL_MS)
      }
    })
    await Promise.all(readers)
    return computePercentile(latencies, 0.99)
  }
}

interface Round {
  copy: number
  /** Seconds, megabytes and milliseconds of each kind of import. */
  imports: Record<Kind, { seconds: number; memory: number; latency: number; quiet: number }>
}

const kinds = ['creations', 'changes'] as const
type Kind = (typeof kinds)[number]

/** Measures imports, first of new rows, then of the same ones changed. @returns whether the goals are reached */
export async function measureImports(context: BenchContext): Promise<boolean> {
  const { database, options, temporaryFolder } = context
  const files = writeFiles(temporaryFolder)
  const target = await startTarget(context, serviceWithKey, FIRST_PORT, { name: 'imports', etags: false })
  try {
    const read = await createReader(target)
    const measureImport = async (file: string, query: string) => {
      await wait(SETTLING_MS)
      const quiet = await read(wait(QUIET_MS))
      const idle = readResidentMemory(target.pid)
      resetPeakMemory(target.pid)
      const sent = importFile(target, file, query)
      const latency = await read(sent)
      return { seconds: await sent, memory: readPeakMemory(target.pid) - idle, latency, quiet }
    }
    await read(wait(QUIET_MS))
    for (const query of ['', '?on_conflict=sku']) await importFile(target, files.warmup, query)
    const rounds: Round[] = []
    for (let i = 0; i < options.rounds; i++) {
      await database.deleteWrittenRows()
      const seconds = copy(database.url, files.copied)
      await database.deleteWrittenRows()
      const creations = await measureImport(files.created, '')
      await database.waitUntilIdle()
      const changes = await measureImport(files.changed, '?on_conflict=sku')
      rounds.push({ copy: seconds, imports: { creations, changes } })
    }
    const copies = rounds.map((round) => round.copy)
    const figures = kinds.flatMap((kind) =>
      toFigures(
        kind,
        rounds.map(({ imports }) => imports[kind]),
        copies,
      ),
    )
    return printFigures(`Import of ${ROWS.toLocaleString('en')} products, ${rounds.length} rounds`, [
      { name: '\\copy', value: formatRate(copies) },
      ...figures,
    ])
  } finally {
    await target.stop()
    // The next part creates products of the same names.
    await database.deleteWrittenRows()
  }
}

const formatRate = (seconds: readonly number[]) =>
  `${Math.round(ROWS / computeSpread(seconds).median).toLocaleString('en')} rows/s`

/** Returns the medians of a kind. */
function toFigures(
  kind: Kind,
  imports: readonly Round['imports'][Kind][],
  copies: readonly number[],
): Figure[] {
  const read = (name: keyof Round['imports'][Kind]) => imports.map((each) => each[name])
  const getMedian = (name: keyof Round['imports'][Kind]) => computeSpread(read(name)).median
  const rate = computeSpread(copies.map((seconds, i) => seconds / (imports[i]?.seconds ?? Number.NaN)))
  const latency = computeSpread(imports.map((each) => each.latency / each.quiet))
  const memory = getMedian('memory')
  const latencies = `${getMedian('latency').toFixed(1)} ms, quiet ${getMedian('quiet').toFixed(1)} ms`
  const rateGoal: Figure['goal'] = [`${MIN_RATE.toFixed(2)} of \\copy`, rate.median >= MIN_RATE]
  return [
    {
      name: kind,
      value: `${formatRate(read('seconds'))}, ${formatRatio(copies, read('seconds'))} of \\copy`,
      ...(kind === 'creations' && { goal: rateGoal }),
    },
    {
      name: `${kind}: memory`,
      value: `${memory.toFixed()} MB above idle`,
      goal: [`at most ${MAX_MEMORY} MB`, memory <= MAX_MEMORY],
    },
    {
      name: `${kind}: p99 of reads`,
      value: `${latencies}, ${formatRatio(read('latency'), read('quiet'))} times`,
      goal: [`at most ${MAX_LATENCY} times`, latency.median <= MAX_LATENCY],
    },
  ]
}
