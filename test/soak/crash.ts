/**
 * Kills the database (kill -9) repeatedly during writes with an Idempotency-Key; each write is repeated until it is
 * acknowledged.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import { openDatabase } from '../../drizzle/client/index.ts'
import { type Client, createClient, type Reply } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { type PrivateServer, privateServer } from './postgres.ts'

export interface CrashOptions {
  /** Beside `DATABASE_URL`. */
  settings: NodeJS.ProcessEnv
  rounds: number
  /** Number of concurrent clients. */
  clients: number
  /** Milliseconds of writing before each kill, from and to. */
  between: readonly [number, number]
  file: string
  onRound?: (line: string) => void
}

export interface CrashReport {
  version: string
  acknowledged: number
  /** How many of them had been done by the time they were acknowledged: the answer of the first was lost. */
  replayed: number
  /** Acknowledged and not there, or there and never acknowledged, a line each. */
  lost: string[]
  /** There twice, or twice out of stock. */
  doubled: string[]
  /** How often each answer came instead of a success; `error` where there was none. */
  refused: Record<string, number>
  /** Milliseconds from each kill to the first 200, the restart of PostgreSQL included. */
  back: number[]
  /** Milliseconds of it from when PostgreSQL answered again. */
  after: number[]
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const STOCK = 1_000_000_000
const OPEN = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: '1000000000',
  RATE_LIMIT_BURST: '1000000000',
}

interface Soak {
  client: Client
  product: string
  report: CrashReport
  /** By its key, the id that an acknowledged post or order has. */
  posts: Map<string, string>
  orders: Map<string, string>
  isOver(): boolean
}

/** Sends until it is done; a client that keeps to `Retry-After` would wait longer. */
async function insist({ report }: Soak, send: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await send().catch(() => undefined)
    if (reply?.status === 201) return reply
    const name = reply ? `${reply.status} ${reply.body?.error?.code}` : 'error'
    report.refused[name] = (report.refused[name] ?? 0) + 1
    await wait(50 + Math.random() * 100)
  }
}

/** One client: a write after the other, each with a key of its own. */
async function write(soak: Soak): Promise<void> {
  const { client, product, posts, orders, report } = soak
  while (!soak.isOver()) {
    const key = uuid()
    const header = { 'idempotency-key': key }
    const isOrder = Math.random() < 0.3
    const body = isOrder
      ? { note: key, items: [{ product_id: product, quantity: 1 }] }
      : { title: key, body: 'Written in haste' }
    const path = isOrder ? '/orders' : '/users/me/posts'
    const reply = await insist(soak, () => client.post(path, body, header))
    report.acknowledged += 1
    if (reply.headers.get('idempotency-replayed')) report.replayed += 1
    ;(isOrder ? orders : posts).set(key, reply.body.data.id)
  }
}

/** Holds what is there against what was acknowledged: by now, all that was ever sent. */
async function audit(url: string, { posts, orders, product, report }: Soak): Promise<void> {
  const database = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  try {
    for (const [acknowledged, query] of [
      [posts, 'select id, title as key from posts'],
      [orders, 'select id, note as key from orders'],
    ] as const) {
      const found = new Map<string, string>()
      for (const { id, key } of await database.run(query)) {
        if (found.has(String(key))) report.doubled.push(`${key} is there twice`)
        found.set(String(key), String(id))
        if (!acknowledged.has(String(key))) report.lost.push(`${key} is there, and was never acknowledged`)
      }
      for (const [key, id] of acknowledged) {
        if (found.get(key) !== id)
          report.lost.push(`${key} was acknowledged as ${id}, and is ${found.get(key)}`)
      }
    }
    const [row] = await database.run('select stock from products where id = $1', [product])
    const taken = STOCK - Number(row?.stock)
    if (taken !== orders.size) report.doubled.push(`${orders.size} orders took ${taken}`)
  } finally {
    await database.close()
  }
}

/** Asks until there is a 200 again. */
async function isBack(client: Client): Promise<void> {
  for (;;) {
    const reply = await client.get('/products?limit=1').catch(() => undefined)
    if (reply?.status === 200) return
    await wait(10)
  }
}

async function crash(server: PrivateServer, { client, report }: Soak): Promise<string> {
  const killed = performance.now()
  await server.kill()
  let started = 0
  const starting = server.start().then(() => {
    started = performance.now()
  })
  await Promise.all([starting, isBack(client)])
  const now = performance.now()
  report.back.push(now - killed)
  report.after.push(now - started)
  return `PostgreSQL in ${Math.round(started - killed)} ms, 200 after ${Math.round(now - killed)} ms`
}

/** Undefined where no PostgreSQL is installed. */
export async function crashRounds(t: Owner, options: CrashOptions): Promise<CrashReport | undefined> {
  const { settings, rounds, clients, between, file, onRound } = options
  const server = await privateServer(t)
  if (!server) return undefined
  const { url } = await startServer(t, { ...settings, ...OPEN, DATABASE_URL: server.url }, file)
  const client = createClient(url, { 'x-api-key': KEY })
  const shared = {
    sku: 'SHARED',
    name: 'What everybody orders',
    price_amount: 1,
    status: 'active',
    stock: STOCK,
  }
  const { body } = await client.post('/products', shared)
  let isOver = false
  const soak: Soak = {
    client,
    product: body.data.id,
    posts: new Map(),
    orders: new Map(),
    isOver: () => isOver,
    report: {
      ...{ version: server.version, acknowledged: 0, replayed: 0 },
      ...{ lost: [], doubled: [], refused: {}, back: [], after: [] },
    },
  }
  const writers = Array.from({ length: clients }, () => write(soak))
  for (let round = 1; round <= rounds; round++) {
    const before = soak.report.acknowledged
    await wait(between[0] + Math.random() * (between[1] - between[0]))
    const line = await crash(server, soak)
    onRound?.(`round ${round}: ${soak.report.acknowledged - before} acknowledged; ${line}`)
  }
  isOver = true
  await Promise.all(writers)
  await audit(server.url, soak)
  return soak.report
}
