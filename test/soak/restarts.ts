/** Restarts two replicas behind a load balancer in turn, repeatedly, while clients read and write. */
import { setTimeout as wait } from 'node:timers/promises'
import { createClient, type Reply } from '../helpers/app.ts'
import { startBalancer } from '../helpers/balancer.ts'
import type { Owner } from '../helpers/database.ts'
import { type RunningProcess, startServer } from '../helpers/process.ts'
import { newest } from './ledger.ts'

export interface RestartOptions {
  /** Where the data stands: a PostgreSQL, since both replicas write to it. */
  settings: NodeJS.ProcessEnv
  /** So many restarts in all, in turn. */
  restarts: number
  clients: number
  /** Milliseconds for which each client rests between two requests. */
  pause: number
  /** Milliseconds between `readyz` 503 and the end of listening. */
  delay: number
  /** The module that is run: `server.ts`, or `server.js` for what was built. */
  file: string
}

export interface RestartReport {
  answered: number
  /** Requests that got no answer, or not the one of a service that is up. */
  failed: string[]
  /** Writes that were acknowledged, and those among them that are not there. */
  written: number
  lost: number
  /** Milliseconds, of all requests. */
  times: number[]
  /** Milliseconds from SIGTERM to the end of the process, and its exit codes. */
  ends: number[]
  codes: (number | null)[]
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const WITHOUT_LIMIT = '1000000000'

export async function rollingRestarts(t: Owner, options: RestartOptions): Promise<RestartReport> {
  const { settings, restarts, clients, pause, delay, file } = options
  const all = {
    ...{ ...settings, PORT: '0', ADMIN_API_KEY: KEY, LOG_LEVEL: 'silent', SHUTDOWN_DELAY: String(delay) },
    ...{ RATE_LIMIT: WITHOUT_LIMIT, RATE_LIMIT_BURST: WITHOUT_LIMIT },
    APP_SECRET: 'soak-secret-soak-secret-soak-secret-soak',
  }
  const report: RestartReport = {
    answered: 0,
    failed: [],
    written: 0,
    lost: 0,
    times: [],
    ends: [],
    codes: [],
  }
  const balancer = await startBalancer(t)
  const start = async (): Promise<RunningProcess & { url: string }> => {
    const server = await startServer(t, all, file)
    await balancer.add(server.url)
    return server
  }
  const replicas = await Promise.all([start(), start()])

  const client = createClient(balancer.url, { 'x-api-key': KEY })
  const ids: string[] = []
  const state = { over: false }
  const ask = async (what: string, expected: number, send: () => Promise<Reply>) => {
    if (pause > 0) await wait(pause * Math.random() * 2)
    const began = performance.now()
    try {
      const reply = await send()
      report.times.push(performance.now() - began)
      report.answered += 1
      if (reply.status !== expected) report.failed.push(`${what} is ${reply.status}: ${reply.text}`)
      return reply
    } catch (error) {
      report.failed.push(`${what}: ${error}`)
      return undefined
    }
  }
  const load = async (_: unknown, own: number) => {
    for (let i = 0; !state.over; i += 1) {
      const body = { sku: `ROLL-${own}-${i}`, name: 'Written amid restarts', price_amount: 1 }
      const made = await ask('POST', 201, () => client.post('/products', body))
      if (made?.status === 201) ids.push(made.body.data.id)
      await ask('GET', 200, () => client.get('/products?limit=5'))
      const id = ids[Math.floor(Math.random() * ids.length)]
      if (id) await ask('GET one', 200, () => client.get(`/products/${id}`))
    }
  }
  const loads = Array.from({ length: clients }, load)

  for (let i = 0; i < restarts; i += 1) {
    const old = replicas.shift()
    if (!old) break
    const began = performance.now()
    old.child.kill('SIGTERM')
    report.codes.push((await old.ended).code)
    report.ends.push(performance.now() - began)
    balancer.remove(old.url)
    replicas.push(await start())
  }
  state.over = true
  await Promise.all(loads)

  report.written = ids.length
  const there = await newest(client, '/products', () => true)
  const known = new Set(there.map(({ id }) => id))
  report.lost = ids.filter((id) => !known.has(id)).length
  return report
}
