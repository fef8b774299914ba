/** Kills a server (-9) repeatedly while clients write, and checks after each restart that no acknowledged write is lost. */
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient, type Json } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { type ProcessExit, type RunningProcess, startModule, startServer } from '../helpers/process.ts'
import { createWriteLog, findLostWrites, readNewestRows, type WriteLog } from './write-log.ts'
import { runWriter } from './writer.ts'

export interface KillOptions {
  /** The location of the data: `DATA_DIR`, and `DATABASE_URL` for PostgreSQL. */
  settings: NodeJS.ProcessEnv
  rounds: number
  clients: number
  /** Minimum and maximum milliseconds of writing before each kill; a round has at least ten acknowledged writes per client. */
  between: readonly [number, number]
  /** The module to run: `server.ts`, or `server.js` for the build. */
  file: string
  /** The signal that ends the server; by default SIGKILL. */
  signal?: NodeJS.Signals
  /** Returns whether a second server is started on the same folder in a round; it must be refused. */
  intrude?: (round: number) => boolean
  onRound?: (line: string) => void
}

export interface KillReport {
  acknowledged: number
  inDoubt: number
  refused: number
  /** A line for each acknowledged write that is missing. */
  lost: string[]
  /** Milliseconds from the start of the process to its first response, after each kill. */
  restarts: number[]
  /** The exit code and signal of each ended process. */
  ends: ProcessExit[]
  /** The number of second processes that were refused. */
  intruders: number
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const STOCK = 1_000_000_000
const MIN_WRITES_PER_CLIENT = 10
/** A server that acknowledges too few writes is killed after this time. */
const ROUND_TIMEOUT_MS = 20_000
const SERVER_SETTINGS = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: '1000000000',
  RATE_LIMIT_BURST: '1000000000',
}

interface Server extends RunningProcess {
  client: Client
  /** Milliseconds from the start to the first response. */
  startupTime: number
}

async function startClientServer(t: Owner, { settings, file }: KillOptions): Promise<Server> {
  const startedAt = performance.now()
  const running = await startServer(t, { ...settings, ...SERVER_SETTINGS }, file)
  const client = createClient(running.url, { 'x-api-key': KEY })
  const { status } = await client.get('/readyz')
  if (status !== 200) throw new Error(`GET /readyz returned ${status}`)
  return { ...running, client, startupTime: performance.now() - startedAt }
}

function killServer(
  { child, ended }: RunningProcess,
  signal: NodeJS.Signals = 'SIGKILL',
): Promise<ProcessExit> {
  child.kill(signal)
  return ended
}

/** Checks that the stock decreased by exactly the quantity of all orders. */
async function checkStock(client: Client, sharedProductId: string, ordered: number): Promise<string[]> {
  const { body } = await client.get(`/products/${sharedProductId}`)
  const taken = STOCK - body.data.stock
  return taken === ordered ? [] : [`the stock decreased by ${taken}, the orders contain ${ordered}`]
}

/** Starts a second server on the folder of a running one. Returns a line if it is not refused. */
async function startIntruder(t: Owner, { settings, file }: KillOptions): Promise<string[]> {
  const { output, ended } = startModule(t, file, { ...settings, ...SERVER_SETTINGS })
  const { code } = await ended
  const isExpected = output.err.includes(`${settings.DATA_DIR} is in use by another process`)
  return code === 1 && isExpected ? [] : [`a second process was not refused: ${code} ${output.err}`]
}

const sumQuantities = ({ items }: Json): number =>
  items.reduce((sum: number, { quantity }: Json) => sum + quantity, 0)

/** Creates a function that reads the rows that are new since its last call. */
function createNewRowsReader(sharedProductId: string) {
  const knownIds = new Set([sharedProductId])
  return async (client: Client): Promise<{ products: Json[]; orders: Json[] }> => {
    const isNew = ({ id }: Json) => !knownIds.has(id)
    const rows = {
      products: await readNewestRows(client, '/products', isNew),
      orders: await readNewestRows(client, '/orders', isNew),
    }
    for (const { id } of [...rows.products, ...rows.orders]) knownIds.add(id)
    return rows
  }
}

function addCounts(report: KillReport, { acknowledged, inDoubt, refused }: WriteLog): void {
  report.acknowledged += acknowledged
  report.inDoubt += inDoubt
  report.refused += refused
}

const createReport = (): KillReport => ({
  acknowledged: 0,
  inDoubt: 0,
  refused: 0,
  lost: [],
  restarts: [],
  ends: [],
  intruders: 0,
})

/** Waits a random time, and until the clients have enough acknowledged writes. */
async function waitForWrites({ clients, between: [min, max] }: KillOptions, log: WriteLog): Promise<void> {
  await wait(min + Math.random() * (max - min))
  const deadline = performance.now() + ROUND_TIMEOUT_MS
  while (log.acknowledged < clients * MIN_WRITES_PER_CLIENT && performance.now() < deadline) await wait(5)
}

/** Kills a server `rounds` times while clients write, and reports lost writes and restart times. */
export async function killRounds(t: Owner, options: KillOptions): Promise<KillReport> {
  const { rounds, clients, onRound } = options
  const report = createReport()
  const logs: WriteLog[] = []
  let server = await startClientServer(t, options)
  const { body } = await server.client.post('/products', {
    ...{ sku: 'SHARED', name: 'Shared product', price_amount: 1, status: 'active', stock: STOCK },
  })
  const sharedProductId: string = body.data.id
  const readNewRows = createNewRowsReader(sharedProductId)
  let ordered = 0

  for (let round = 1; round <= rounds; round++) {
    const log = createWriteLog()
    const { client } = server
    const writers = Array.from({ length: clients }, () => runWriter(client, log, sharedProductId))
    if (options.intrude?.(round)) {
      report.lost.push(...(await startIntruder(t, options)))
      report.intruders++
    }
    await waitForWrites(options, log)
    report.ends.push(await killServer(server, options.signal))
    await Promise.all(writers)
    server = await startClientServer(t, options)
    const rows = await readNewRows(server.client)
    ordered += rows.orders.reduce((sum, row) => sum + sumQuantities(row), 0)
    const lost = [
      ...findLostWrites(log, rows),
      ...(await checkStock(server.client, sharedProductId, ordered)),
    ]
    report.lost.push(...lost)
    report.restarts.push(server.startupTime)
    addCounts(report, log)
    logs.push(log)
    onRound?.(
      `round ${round}: ${log.acknowledged} acknowledged, ${log.inDoubt} in doubt, ${lost.length} lost,` +
        ` restarted in ${Math.round(server.startupTime)} ms`,
    )
  }

  // Check all rounds again: a later kill could have lost writes of an earlier round.
  const rows = {
    products: await readNewestRows(server.client, '/products', () => true),
    orders: await readNewestRows(server.client, '/orders', () => true),
  }
  for (const log of logs) report.lost.push(...findLostWrites(log, rows))
  await killServer(server)
  return report
}
