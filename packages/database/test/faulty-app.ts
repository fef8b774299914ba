/** An app whose database can be made to fail, and assertions about what clients then see. */
import { createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { type Reply, type TestApp, testApp } from '../../testing/helpers/app.ts'
import { type Owner, openDatabase, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { stopEventWork } from '../../testing/helpers/events.ts'
import { listen } from '../../testing/helpers/network.ts'
import { startProxy } from '../../testing/helpers/proxy.ts'
import { createDeferred, getRunningTime } from '../../testing/helpers/time.ts'
import { createDatabase } from '../src/client/database.ts'
import type { Database } from '../src/client/index.ts'

export const POOL_SIZE = 4
/** Shorter than the default, to keep the tests short, and long enough for a busy machine. */
export const STATEMENT_TIMEOUT_MS = 2_000

/** A password that no log may contain; the test servers accept any. */
const PASSWORD = 'hunter2-of-the-database'
const INTERNAL =
  /hunter2|postgres(ql)?:|insert into|select |ECONN|127\.0\.0\.1|\bat .*\.ts|SQL|57P|40P|530|250/i
const SECRETS = /hunter2|insert into|\bselect\b.*\bfrom\b|Written amid faults/i

export interface FaultyApp extends TestApp {
  proxy: Awaited<ReturnType<typeof startProxy>>
  /** A connection that bypasses the proxy. */
  direct: Database
  logs: string[]
}

/** Starts the app with a database behind a proxy. Needs a PostgreSQL server. */
export async function createFaultyApp(t: Owner): Promise<FaultyApp> {
  const { url = '' } = await testDatabaseUrl(t)
  const patient = new URL(url)
  patient.searchParams.set('connect_timeout', '60')
  const direct = await openDatabase({ url: patient.href, poolSize: 2, statementTimeout: 0 })
  t.teardown(() => direct.close())
  const proxy = await startProxy(t, url)
  const { href } = Object.assign(new URL(proxy.url), { password: PASSWORD })
  const limits = { poolSize: POOL_SIZE, statementTimeout: STATEMENT_TIMEOUT_MS }
  // The start is not tested. On a busy machine, it may take longer than the limits.
  const openLimited = (): Promise<Database> => openDatabase({ url: href, ...limits }).catch(openLimited)
  const limited = await openLimited()
  let { $client } = direct
  const database = createDatabase({
    ...limited.$client,
    run: (...args) => $client.run(...args),
    transaction: (...args) => $client.transaction(...args),
  })
  const logs: string[] = []
  const parts = { database, logs: { write: (line: string) => logs.push(line) } }
  const app = await testApp(t, { LOG_LEVEL: 'debug' }, parts)
  await stopEventWork(app.app)
  $client = limited.$client
  return { ...app, proxy, direct, logs }
}

let count = 0
const product = () => ({ sku: `FAULT-${count++}`, name: 'Written amid faults', price_amount: 1 })

export const listProducts = ({ admin }: TestApp): Promise<Reply> => admin.get('/products')
export const createProduct = ({ admin }: TestApp): Promise<Reply> => admin.post('/products', product())

/** Writes until one succeeds: on a busy machine the first may exceed the short timeout. */
export async function waitUntilServed(app: TestApp): Promise<void> {
  while ((await createProduct(app)).status !== 201) await wait(25)
}

/** Asserts a 503 in the envelope that reveals nothing of the cause. */
export function assertUnavailable(t: Test, { status, headers, body, text }: Reply): void {
  const error = { code: 'SERVICE_UNAVAILABLE', request_id: headers.get('x-request-id') }
  t.match({ status, body }, { status: 503, body: { error } })
  t.match(headers.get('retry-after'), /^[1-9]\d*$/)
  t.notMatch(String(body?.error?.message), INTERNAL, text)
}

interface Expected {
  /** Milliseconds in which every request must be answered. */
  within: number
  /** Whether readyz stays 200, as for faults of single statements. Default: false. */
  ready?: boolean
  /** The requests that fail. Default: reads and writes. */
  requests?: readonly ((app: TestApp) => Promise<Reply>)[]
}

/** Asserts that more requests than connections all get a 503 in time, livez a 200, and readyz a 503. */
export async function assertAllRefused(t: Test, app: FaultyApp, expected: Expected): Promise<void> {
  const { within, ready = false, requests = [listProducts, createProduct] } = expected
  const timed = async (request: Promise<Reply>) => {
    const began = getRunningTime()
    return { reply: await request, took: getRunningTime() - began }
  }
  const asked = Array.from({ length: POOL_SIZE + 2 }).flatMap(() =>
    requests.map((request) => timed(request(app))),
  )
  const readyz = timed(app.anybody.get('/readyz'))
  t.equal((await app.anybody.get('/livez')).status, 200, 'livez is 200')
  const answers = await Promise.all(asked)
  for (const { reply } of answers) assertUnavailable(t, reply)
  const longest = Math.max(...answers.map(({ took }) => took))
  t.ok(longest < within, `the longest refusal took ${longest.toFixed()} of ${within} ms`)
  const { reply, took } = await readyz
  if (ready) t.equal(reply.status, 200, 'readyz is 200')
  else assertUnavailable(t, reply)
  t.ok(took < 2_500, `readyz took ${took.toFixed()} ms`)
}

/** Asserts that a read, a write and readyz succeed again within a time. */
export async function assertRecovery(t: Test, app: FaultyApp, within = 2_000): Promise<void> {
  const began = getRunningTime()
  let isOver = false
  const ask = async (send: () => Promise<Reply>) => {
    while (!isOver) {
      if ((await send()).status < 300) return
      await wait(25)
    }
  }
  const requests = [() => listProducts(app), () => createProduct(app), () => app.anybody.get('/readyz')]
  // Several of each, because one may wait for a connection that is being closed.
  await Promise.all(requests.map((send) => Promise.race([ask(send), ask(send), ask(send)])))
  isOver = true
  const took = getRunningTime() - began
  t.ok(took < within, `back after ${took.toFixed()} ms`)
}

/** Acquires every connection of the pool at the same time. One that is being closed because of a fault is replaced. */
export async function holdAllConnections({ database }: TestApp): Promise<void> {
  let inside = 0
  const all = createDeferred()
  const hold = (): Promise<void> =>
    database
      .transaction(async (tx) => {
        await tx.run('select 1')
        inside += 1
        if (inside === POOL_SIZE) all.resolve()
        await all.promise
      })
      .catch(hold)
  await Promise.all(Array.from({ length: POOL_SIZE }, hold))
}

/** Asserts that no connection is lost or left over, and that the log contains no secret. */
export async function assertNothingLost(t: Test, app: FaultyApp): Promise<void> {
  const { direct, logs } = app
  await holdAllConnections(app)
  const count = async () => {
    const [row] = await direct.run(
      `select count(*) as all, count(*) filter (where state like '%transaction%') as inside from pg_stat_activity
       where datname = current_database() and application_name = 'resource-api' and pid <> pg_backend_pid()`,
    )
    return { all: Number(row?.all), inside: Number(row?.inside) }
  }
  // The server needs a moment to notice a closed connection.
  const until = getRunningTime() + 3_000
  while ((await count()).all > POOL_SIZE + 2 && getRunningTime() < until) await wait(20)
  const { all, inside } = await count()
  t.ok(all <= POOL_SIZE + 2, `${all} connections: the pool, the one for pings and that of the test`)
  t.equal(inside, 0, 'none of them in a transaction')
  t.notMatch(logs.join(''), SECRETS)
}

/** Starts a server that refuses every connection with an error of PostgreSQL, and returns its address. */
export async function startRefusingServer(t: Owner, code: string, message: string): Promise<string> {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
  const head = Buffer.alloc(5, 'E')
  head.writeInt32BE(fields.length + 4, 1)
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(Buffer.concat([head, fields])))
  })
  t.teardown(() => server.close())
  return `postgres://127.0.0.1:${await listen(server)}/`
}
