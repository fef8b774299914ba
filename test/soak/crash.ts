/** Kills PostgreSQL (-9) repeatedly while clients send writes with keys, each until it is acknowledged. */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import { openDatabase } from '../../drizzle/client/index.ts'
import { type Client, createClient, type Reply } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'
import { waitUntilServed } from './wait-until-served.ts'

export interface CrashOptions {
  /** Settings of the server other than `DATABASE_URL`. */
  settings: NodeJS.ProcessEnv
  rounds: number
  /** The number of concurrent writers. */
  clients: number
  /** Minimum and maximum milliseconds of writing before each kill. */
  between: readonly [number, number]
  file: string
  onRound?: (line: string) => void
}

export interface CrashReport {
  version: string
  acknowledged: number
  /** Acknowledged writes whose first response was lost: the server replayed the stored one. */
  replayed: number
  /** A line for each write that was acknowledged and is missing, or exists and was never acknowledged. */
  lost: string[]
  /** A line for each write that was executed twice. */
  duplicated: string[]
  /** The number of responses other than success, by status and code; `error` counts missing responses. */
  refused: Record<string, number>
  /** Milliseconds from each kill to the first 200, including the restart of PostgreSQL. */
  recoveryTimes: number[]
  /** Milliseconds from the first response of PostgreSQL to the first 200. */
  reconnectTimes: number[]
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const STOCK = 1_000_000_000
const SERVER_SETTINGS = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: '1000000000',
  RATE_LIMIT_BURST: '1000000000',
}

interface CrashTest {
  client: Client
  productId: string
  report: CrashReport
  /** Ids of acknowledged posts and orders, by idempotency key. */
  posts: Map<string, string>
  orders: Map<string, string>
  isOver(): boolean
}

/** Repeats a write until it succeeds, without the wait of `Retry-After`. */
async function retryUntilCreated({ report }: CrashTest, send: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await send().catch(() => undefined)
    if (reply?.status === 201) return reply
    const name = reply ? `${reply.status} ${reply.body?.error?.code}` : 'error'
    report.refused[name] = (report.refused[name] ?? 0) + 1
    await wait(50 + Math.random() * 100)
  }
}

/** Sends one write after the other, each with a new idempotency key. */
async function runWriter(test: CrashTest): Promise<void> {
  const { client, productId, posts, orders, report } = test
  while (!test.isOver()) {
    const key = uuid()
    const header = { 'idempotency-key': key }
    const isOrder = Math.random() < 0.3
    const body = isOrder
      ? { note: key, items: [{ product_id: productId, quantity: 1 }] }
      : { title: key, body: 'Soak post' }
    const path = isOrder ? '/orders' : '/users/me/posts'
    const reply = await retryUntilCreated(test, () => client.post(path, body, header))
    report.acknowledged += 1
    if (reply.headers.get('idempotency-replayed')) report.replayed += 1
    ;(isOrder ? orders : posts).set(key, reply.body.data.id)
  }
}

/** Compares the rows with the acknowledged writes; at the end every write has been acknowledged. */
async function compareRows(url: string, { posts, orders, productId, report }: CrashTest): Promise<void> {
  const database = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  try {
    for (const [acknowledged, query] of [
      [posts, 'select id, title as key from posts'],
      [orders, 'select id, note as key from orders'],
    ] as const) {
      const rowIds = new Map<string, string>()
      for (const { id, key } of await database.run(query)) {
        if (rowIds.has(String(key))) report.duplicated.push(`${key} exists twice`)
        rowIds.set(String(key), String(id))
        if (!acknowledged.has(String(key))) report.lost.push(`${key} exists and was never acknowledged`)
      }
      for (const [key, id] of acknowledged) {
        if (rowIds.get(key) !== id)
          report.lost.push(`${key} was acknowledged with id ${id}; its row has ${rowIds.get(key)}`)
      }
    }
    const [row] = await database.run('select stock from products where id = $1', [productId])
    const taken = STOCK - Number(row?.stock)
    if (taken !== orders.size) report.duplicated.push(`${orders.size} orders decreased the stock by ${taken}`)
  } finally {
    await database.close()
  }
}

/** Kills and restarts PostgreSQL. Returns a line with the times. */
async function killAndRestart(postgres: PrivatePostgres, { client, report }: CrashTest): Promise<string> {
  const killedAt = performance.now()
  await postgres.kill()
  let startedAt = 0
  const starting = postgres.start().then(() => {
    startedAt = performance.now()
  })
  await Promise.all([starting, waitUntilServed(client)])
  const servedAt = performance.now()
  report.recoveryTimes.push(servedAt - killedAt)
  report.reconnectTimes.push(servedAt - startedAt)
  return `PostgreSQL after ${Math.round(startedAt - killedAt)} ms, 200 after ${Math.round(servedAt - killedAt)} ms`
}

/** Runs the test. Returns undefined if PostgreSQL is not installed. */
export async function crashRounds(t: Owner, options: CrashOptions): Promise<CrashReport | undefined> {
  const { settings, rounds, clients, between, file, onRound } = options
  const postgres = await startPrivatePostgres(t)
  if (!postgres) return undefined
  const { url } = await startServer(t, { ...settings, ...SERVER_SETTINGS, DATABASE_URL: postgres.url }, file)
  const client = createClient(url, { 'x-api-key': KEY })
  const product = {
    sku: 'SHARED',
    name: 'Shared product',
    price_amount: 1,
    status: 'active',
    stock: STOCK,
  }
  const { body } = await client.post('/products', product)
  let isOver = false
  const test: CrashTest = {
    client,
    productId: body.data.id,
    posts: new Map(),
    orders: new Map(),
    isOver: () => isOver,
    report: {
      ...{ version: postgres.version, acknowledged: 0, replayed: 0 },
      ...{ lost: [], duplicated: [], refused: {}, recoveryTimes: [], reconnectTimes: [] },
    },
  }
  const writers = Array.from({ length: clients }, () => runWriter(test))
  for (let round = 1; round <= rounds; round++) {
    const acknowledgedBefore = test.report.acknowledged
    await wait(between[0] + Math.random() * (between[1] - between[0]))
    const line = await killAndRestart(postgres, test)
    onRound?.(`round ${round}: ${test.report.acknowledged - acknowledgedBefore} acknowledged; ${line}`)
  }
  isOver = true
  await Promise.all(writers)
  await compareRows(postgres.url, test)
  return test.report
}
