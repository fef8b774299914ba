/** Kills PostgreSQL (-9) repeatedly while clients send writes with keys, each until it is acknowledged. */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import { openDatabase } from '../../drizzle/client/index.ts'
import type { Client, Reply } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'
import { failIf, formatRange, printViolations } from './report.ts'
import { startSoakServer, waitUntilServed } from './server.ts'

const CLIENTS = 64
const STOCK = 1_000_000_000

interface CrashTest {
  client: Client
  productId: string
  isOver: boolean
  /** Ids of acknowledged posts and orders, by idempotency key. */
  posts: Map<string, string>
  orders: Map<string, string>
  /** The number of acknowledged writes whose first response was lost: the server replayed the stored one. */
  replayed: number
  /** The number of responses other than success, by status and code; `error` counts missing responses. */
  refused: Record<string, number>
  /** Milliseconds from each kill to the first 200, including the restart of PostgreSQL. */
  recoveryTimes: number[]
  /** Milliseconds from the first response of PostgreSQL to the first 200. */
  reconnectTimes: number[]
}

const countAcknowledged = ({ posts, orders }: CrashTest) => posts.size + orders.size

/** Repeats a write until it succeeds, without the wait of `Retry-After`. */
async function retryUntilCreated({ refused }: CrashTest, send: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await send().catch(() => undefined)
    if (reply?.status === 201) return reply
    const name = reply ? `${reply.status} ${reply.body?.error?.code}` : 'error'
    refused[name] = (refused[name] ?? 0) + 1
    await wait(50 + Math.random() * 100)
  }
}

/** Sends one write after the other, each with a new idempotency key. */
async function runWriter(test: CrashTest): Promise<void> {
  const { client, productId, posts, orders } = test
  while (!test.isOver) {
    const key = uuid()
    const isOrder = Math.random() < 0.3
    const body = isOrder
      ? { note: key, items: [{ product_id: productId, quantity: 1 }] }
      : { title: key, body: 'Soak post' }
    const path = isOrder ? '/orders' : '/users/me/posts'
    const reply = await retryUntilCreated(test, () => client.post(path, body, { 'idempotency-key': key }))
    if (reply.headers.get('idempotency-replayed')) test.replayed += 1
    ;(isOrder ? orders : posts).set(key, reply.body.data.id)
  }
}

/** Returns a line for each write that is missing, was never acknowledged, or was executed twice. */
async function findViolations(url: string, { posts, orders, productId }: CrashTest): Promise<string[]> {
  const database = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  const violations: string[] = []
  try {
    for (const [acknowledged, query] of [
      [posts, 'select id, title as key from posts'],
      [orders, 'select id, note as key from orders'],
    ] as const) {
      const rowIds = new Map<string, string>()
      for (const { id, key } of await database.run(query)) {
        if (rowIds.has(String(key))) violations.push(`${key} exists twice`)
        rowIds.set(String(key), String(id))
        if (!acknowledged.has(String(key))) violations.push(`${key} exists and was never acknowledged`)
      }
      for (const [key, id] of acknowledged) {
        if (rowIds.get(key) !== id)
          violations.push(`${key} was acknowledged with id ${id}; its row has ${rowIds.get(key)}`)
      }
    }
    const [row] = await database.run('select stock from products where id = $1', [productId])
    const taken = STOCK - Number(row?.stock)
    if (taken !== orders.size) violations.push(`${orders.size} orders decreased the stock by ${taken}`)
  } finally {
    await database.close()
  }
  return violations
}

/** Kills and restarts PostgreSQL. Returns a line with the times. */
async function killAndRestart(postgres: PrivatePostgres, test: CrashTest): Promise<string> {
  const killedAt = performance.now()
  await postgres.kill()
  let startedAt = 0
  const starting = postgres.start().then(() => {
    startedAt = performance.now()
  })
  await Promise.all([starting, waitUntilServed(test.client)])
  const servedAt = performance.now()
  test.recoveryTimes.push(servedAt - killedAt)
  test.reconnectTimes.push(servedAt - startedAt)
  return `PostgreSQL after ${Math.round(startedAt - killedAt)} ms, 200 after ${Math.round(servedAt - killedAt)} ms`
}

export async function soakCrashes(t: Owner, rounds: number): Promise<void> {
  console.log(`kill -9 of PostgreSQL while ${CLIENTS} clients write with keys, ${rounds} times`)
  const postgres = await startPrivatePostgres(t)
  const { admin } = await startSoakServer(t, { DATA_DIR: testFolder(t), DATABASE_URL: postgres.url })
  const { body } = await admin.post('/products', {
    ...{ sku: 'SHARED', name: 'Shared product', price_amount: 1, status: 'active', stock: STOCK },
  })
  const test: CrashTest = {
    ...{ client: admin, productId: body.data.id, isOver: false, posts: new Map(), orders: new Map() },
    ...{ replayed: 0, refused: {}, recoveryTimes: [], reconnectTimes: [] },
  }
  const writers = Array.from({ length: CLIENTS }, () => runWriter(test))
  for (let round = 1; round <= rounds; round++) {
    const before = countAcknowledged(test)
    await wait(500 + Math.random() * 1_000)
    const line = await killAndRestart(postgres, test)
    console.log(`round ${round}: ${countAcknowledged(test) - before} acknowledged; ${line}`)
  }
  test.isOver = true
  await Promise.all(writers)
  const violations = await findViolations(postgres.url, test)
  console.log(
    `${postgres.version}: ${rounds} kills; ${countAcknowledged(test)} writes acknowledged,` +
      ` ${test.replayed} of them by a replay; ${violations.length} lost or duplicated`,
  )
  console.log(`  other responses: ${JSON.stringify(test.refused)}`)
  console.log(
    `  first 200 ${formatRange(test.recoveryTimes)} ms after the kill (min, median, max),` +
      ` ${formatRange(test.reconnectTimes)} ms after PostgreSQL accepted connections`,
  )
  printViolations(violations)
  failIf(Object.keys(test.refused).some((name) => !/^(?:503|409 RESOURCE_CONFLICT|error)/.test(name)))
}
