/**
 * Kills a server (kill -9) repeatedly during writes, and checks after each restart that no acknowledged write is
 * lost.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient, type Json } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { type ProcessExit, type RunningProcess, startModule, startServer } from '../helpers/process.ts'
import { compare, createLedger, type Ledger, newest } from './ledger.ts'
import { write } from './writer.ts'

export interface KillOptions {
  /** Where the data stands: `DATA_DIR`, or `DATABASE_URL` as well. */
  settings: NodeJS.ProcessEnv
  rounds: number
  clients: number
  /** Milliseconds of writing before each kill, from and to; but never before `clients` times ten were acknowledged. */
  between: readonly [number, number]
  /** The module that is run: `server.ts`, or `server.js` for what was built. */
  file: string
  /** How it is ended: killed, unless something else is said. */
  signal?: NodeJS.Signals
  /** In these rounds, a second server on the same folder must be refused. */
  intrude?: (round: number) => boolean
  onRound?: (line: string) => void
}

export interface KillReport {
  acknowledged: number
  inDoubt: number
  refused: number
  /** What was acknowledged and is not there, a line each. */
  lost: string[]
  /** Milliseconds from the start of the process to its first answer, after each kill. */
  restarts: number[]
  /** How the processes ended. */
  ends: ProcessExit[]
  /** Second processes that were refused by name. */
  intruders: number
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const STOCK = 1_000_000_000
/** Milliseconds after which a server that acknowledges too little is killed all the same. */
const PATIENCE = 20_000
const OPEN = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: '1000000000',
  RATE_LIMIT_BURST: '1000000000',
}

interface Server extends RunningProcess {
  client: Client
  /** Milliseconds until it answered. */
  took: number
}

async function start(t: Owner, { settings, file }: KillOptions): Promise<Server> {
  const began = performance.now()
  const running = await startServer(t, { ...settings, ...OPEN }, file)
  const client = createClient(running.url, { 'x-api-key': KEY })
  const { status } = await client.get('/readyz')
  if (status !== 200) throw new Error(`readyz is ${status}`)
  return { ...running, client, took: performance.now() - began }
}

function kill({ child, ended }: RunningProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<ProcessExit> {
  child.kill(signal)
  return ended
}

/** What all orders together took must be missing from the stock, no more and no less. */
async function balance(client: Client, shared: string, taken: number): Promise<string[]> {
  const { body } = await client.get(`/products/${shared}`)
  const missing = STOCK - body.data.stock
  return missing === taken ? [] : [`the stock lacks ${missing}, the orders hold ${taken}`]
}

/** A second server on the folder of one that runs. */
async function intrude(t: Owner, { settings, file }: KillOptions): Promise<string[]> {
  const { output, ended } = startModule(t, file, { ...settings, ...OPEN })
  const { code } = await ended
  const named = output.err.includes(`${settings.DATA_DIR} is in use by another process`)
  return code === 1 && named ? [] : [`a second process was let in: ${code} ${output.err}`]
}

const quantityOf = ({ items }: Json): number =>
  items.reduce((sum: number, { quantity }: Json) => sum + quantity, 0)

/** Reads what is new since the last call, and remembers that it has. */
function createReader(shared: string) {
  const known = new Set([shared])
  return async (client: Client): Promise<{ products: Json[]; orders: Json[] }> => {
    const isNew = ({ id }: Json) => !known.has(id)
    const rows = {
      products: await newest(client, '/products', isNew),
      orders: await newest(client, '/orders', isNew),
    }
    for (const { id } of [...rows.products, ...rows.orders]) known.add(id)
    return rows
  }
}

function add(report: KillReport, { acknowledged, inDoubt, refused }: Ledger): void {
  report.acknowledged += acknowledged
  report.inDoubt += inDoubt
  report.refused += refused
}

/** Kills a server `rounds` times while clients write, and says what became of what they were promised. */
export async function killRounds(t: Owner, options: KillOptions): Promise<KillReport> {
  const { rounds, clients, between, onRound } = options
  const report: KillReport = {
    acknowledged: 0,
    inDoubt: 0,
    refused: 0,
    lost: [],
    restarts: [],
    ends: [],
    intruders: 0,
  }
  const ledgers: Ledger[] = []
  let server = await start(t, options)
  const { body } = await server.client.post('/products', {
    ...{ sku: 'SHARED', name: 'What everybody orders', price_amount: 1, status: 'active', stock: STOCK },
  })
  const shared: string = body.data.id
  const read = createReader(shared)
  let taken = 0

  for (let round = 1; round <= rounds; round++) {
    const ledger = createLedger()
    const { client } = server
    const writers = Array.from({ length: clients }, () => write(client, ledger, shared))
    if (options.intrude?.(round)) {
      report.lost.push(...(await intrude(t, options)))
      report.intruders++
    }
    const [least, most] = between
    await wait(least + Math.random() * (most - least))
    const deadline = performance.now() + PATIENCE
    while (ledger.acknowledged < clients * 10 && performance.now() < deadline) await wait(5)
    report.ends.push(await kill(server, options.signal))
    await Promise.all(writers)
    server = await start(t, options)
    const rows = await read(server.client)
    taken += rows.orders.reduce((sum, row) => sum + quantityOf(row), 0)
    const lost = [...compare(ledger, rows), ...(await balance(server.client, shared, taken))]
    report.lost.push(...lost)
    report.restarts.push(server.took)
    add(report, ledger)
    ledgers.push(ledger)
    onRound?.(
      `round ${round}: ${ledger.acknowledged} acknowledged, ${ledger.inDoubt} in doubt, ${lost.length} lost,` +
        ` back in ${Math.round(server.took)} ms`,
    )
  }

  // Once more, all of it: what one kill has spared, a later one might have taken.
  const all = {
    products: await newest(server.client, '/products', () => true),
    orders: await newest(server.client, '/orders', () => true),
  }
  for (const ledger of ledgers) report.lost.push(...compare(ledger, all))
  await kill(server)
  return report
}
