/** Kills a server (-9) repeatedly while clients write, and checks after each restart that no acknowledged write is lost. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client, Json } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { type ProcessExit, startModule } from '../helpers/process.ts'
import { formatRange, printViolations } from './report.ts'
import { createDatabaseSettings, SETTINGS, startSoakServer } from './server.ts'
import { createWriteLog, findLostWrites, readNewestRows, type WriteLog } from './write-log.ts'
import { runWriter } from './writer.ts'

export interface KillOptions {
  /** The location of the data: `DATA_DIR`, and `DATABASE_URL` for PostgreSQL. */
  settings: NodeJS.ProcessEnv
  rounds: number
  clients: number
  /** Minimum and maximum milliseconds of writing before each kill; a round has at least ten acknowledged writes per client. */
  between: readonly [number, number]
  /** The signal that ends the server; by default SIGKILL. */
  signal?: NodeJS.Signals
  /** Whether a second server is started on the same folder in each fifth round; it must be refused. */
  hasIntruders?: boolean
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

const STOCK = 1_000_000_000
const MIN_WRITES_PER_CLIENT = 10
/** A server that acknowledges too few writes is killed after this time. */
const ROUND_TIMEOUT_MS = 20_000

/** Starts a server. `startupTime` are the milliseconds until its first response. */
async function startTimedServer(t: Owner, { settings }: KillOptions) {
  const startedAt = performance.now()
  const server = await startSoakServer(t, settings)
  const { status } = await server.admin.get('/readyz')
  if (status !== 200) throw new Error(`GET /readyz returned ${status}`)
  return { ...server, startupTime: performance.now() - startedAt }
}

/** Checks that the stock decreased by exactly the quantity of all orders. */
async function checkStock(client: Client, sharedProductId: string, ordered: number): Promise<string[]> {
  const { body } = await client.get(`/products/${sharedProductId}`)
  const taken = STOCK - body.data.stock
  return taken === ordered ? [] : [`the stock decreased by ${taken}, the orders contain ${ordered}`]
}

/** Starts a second server on the folder of a running one. Returns a line if it is not refused. */
async function startIntruder(t: Owner, { settings }: KillOptions): Promise<string[]> {
  const { output, ended } = startModule(t, 'server.js', { ...SETTINGS, ...settings })
  const { code } = await ended
  const isExpected = output.err.includes(`${settings.DATA_DIR} is in use by another process`)
  return code === 1 && isExpected ? [] : [`a second process was not refused: ${code} ${output.err}`]
}

const sumQuantities = (orders: readonly Json[]): number =>
  orders.flatMap(({ items }) => items).reduce((sum: number, { quantity }: Json) => sum + quantity, 0)

const readRows = async (client: Client, isNew: (row: Json) => boolean) => ({
  products: await readNewestRows(client, '/products', isNew),
  orders: await readNewestRows(client, '/orders', isNew),
})

/** Waits a random time, and until the clients have enough acknowledged writes. */
async function waitForWrites({ clients, between: [min, max] }: KillOptions, log: WriteLog): Promise<void> {
  await wait(min + Math.random() * (max - min))
  const deadline = performance.now() + ROUND_TIMEOUT_MS
  while (log.acknowledged < clients * MIN_WRITES_PER_CLIENT && performance.now() < deadline) await wait(5)
}

/** Kills a server `rounds` times while clients write, and reports lost writes and restart times. */
export async function killRounds(t: Owner, options: KillOptions): Promise<KillReport> {
  const { rounds, clients, signal = 'SIGKILL', hasIntruders = false, onRound } = options
  const report: KillReport = {
    ...{ acknowledged: 0, inDoubt: 0, refused: 0, intruders: 0 },
    ...{ lost: [], restarts: [], ends: [] },
  }
  const logs: WriteLog[] = []
  let server = await startTimedServer(t, options)
  const { body } = await server.admin.post('/products', {
    ...{ sku: 'SHARED', name: 'Shared product', price_amount: 1, status: 'active', stock: STOCK },
  })
  const sharedProductId: string = body.data.id
  const knownIds = new Set([sharedProductId])
  let ordered = 0

  for (let round = 1; round <= rounds; round++) {
    const log = createWriteLog()
    logs.push(log)
    const { admin } = server
    const writers = Array.from({ length: clients }, () => runWriter(admin, log, sharedProductId))
    if (hasIntruders && round % 5 === 0) {
      report.lost.push(...(await startIntruder(t, options)))
      report.intruders++
    }
    await waitForWrites(options, log)
    server.child.kill(signal)
    report.ends.push(await server.ended)
    await Promise.all(writers)
    server = await startTimedServer(t, options)
    const rows = await readRows(server.admin, ({ id }) => !knownIds.has(id))
    for (const { id } of [...rows.products, ...rows.orders]) knownIds.add(id)
    ordered += sumQuantities(rows.orders)
    const lost = [...findLostWrites(log, rows), ...(await checkStock(server.admin, sharedProductId, ordered))]
    report.lost.push(...lost)
    report.restarts.push(server.startupTime)
    report.acknowledged += log.acknowledged
    report.inDoubt += log.inDoubt
    report.refused += log.refused
    onRound?.(
      `round ${round}: ${log.acknowledged} acknowledged, ${log.inDoubt} in doubt, ${lost.length} lost,` +
        ` restarted in ${Math.round(server.startupTime)} ms`,
    )
  }

  // Check all rounds again: a later kill could have lost writes of an earlier round.
  const rows = await readRows(server.admin, () => true)
  for (const log of logs) report.lost.push(...findLostWrites(log, rows))
  server.child.kill('SIGKILL')
  await server.ended
  return report
}

async function soakKills(t: Owner, options: Pick<KillOptions, 'settings' | 'rounds' | 'hasIntruders'>) {
  const load = { clients: 8, between: [300, 2_000], onRound: console.log } as const
  const { restarts, lost, ...counts } = await killRounds(t, { ...load, ...options })
  console.log(
    `  ${restarts.length} kills; ${counts.acknowledged} writes acknowledged, ${lost.length} of them lost;` +
      ` ${counts.inDoubt} in doubt, ${counts.refused} refused;` +
      ` restart ${formatRange(restarts)} ms (min, median, max); ${counts.intruders} second processes refused`,
  )
  printViolations(lost)
}

export async function killEmbedded(t: Owner, rounds: number): Promise<void> {
  console.log(`kill -9 of a server while 8 clients write, ${rounds} times, embedded database`)
  await soakKills(t, { settings: { DATA_DIR: testFolder(t) }, rounds, hasIntruders: true })
}

export async function killOnServer(t: Owner, rounds: number): Promise<void> {
  console.log('the same on PostgreSQL, which keeps running')
  await soakKills(t, { settings: await createDatabaseSettings(t), rounds })
}
