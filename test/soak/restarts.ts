/** Restarts two servers behind a load balancer in turn while clients read and write. */
import { setTimeout as wait } from 'node:timers/promises'
import { createClient, type Reply } from '../helpers/app.ts'
import { startBalancer } from '../helpers/balancer.ts'
import type { Owner } from '../helpers/database.ts'
import { type RunningProcess, startServer } from '../helpers/process.ts'
import { readNewestRows } from './write-log.ts'

export interface RestartOptions {
  /** The settings of both servers, with the `DATABASE_URL` of a shared PostgreSQL. */
  settings: NodeJS.ProcessEnv
  /** The total number of restarts. */
  restarts: number
  clients: number
  /** Average milliseconds between two requests of a client. */
  pause: number
  /** SHUTDOWN_DELAY in milliseconds: from the 503 of `/readyz` to the end of listening. */
  delay: number
  /** The module to run: `server.ts`, or `server.js` for the build. */
  file: string
}

export interface RestartReport {
  answered: number
  /** A line for each request without a response or with an unexpected status. */
  failed: string[]
  /** The number of acknowledged writes, and how many of them are missing. */
  written: number
  lost: number
  /** Milliseconds of each request. */
  times: number[]
  /** Milliseconds from SIGTERM to the end of each process, and the exit codes. */
  ends: number[]
  codes: (number | null)[]
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const HIGH_LIMIT = '1000000000'

/** Runs the load and restarts the servers one after the other. */
export async function rollingRestarts(t: Owner, options: RestartOptions): Promise<RestartReport> {
  const { settings, restarts, clients, pause, delay, file } = options
  const serverSettings = {
    ...{ ...settings, PORT: '0', ADMIN_API_KEY: KEY, LOG_LEVEL: 'silent', SHUTDOWN_DELAY: String(delay) },
    ...{ RATE_LIMIT: HIGH_LIMIT, RATE_LIMIT_BURST: HIGH_LIMIT },
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
  const startBalanced = async (): Promise<RunningProcess & { url: string }> => {
    const server = await startServer(t, serverSettings, file)
    await balancer.add(server.url)
    return server
  }
  const servers = await Promise.all([startBalanced(), startBalanced()])

  const client = createClient(balancer.url, { 'x-api-key': KEY })
  const ids: string[] = []
  const state = { isOver: false }
  const sendRequest = async (name: string, expected: number, send: () => Promise<Reply>) => {
    if (pause > 0) await wait(pause * Math.random() * 2)
    const startedAt = performance.now()
    try {
      const reply = await send()
      report.times.push(performance.now() - startedAt)
      report.answered += 1
      if (reply.status !== expected) report.failed.push(`${name} returned ${reply.status}: ${reply.text}`)
      return reply
    } catch (error) {
      report.failed.push(`${name}: ${error}`)
      return undefined
    }
  }
  const runClient = async (_: unknown, clientIndex: number) => {
    for (let i = 0; !state.isOver; i += 1) {
      const body = { sku: `ROLL-${clientIndex}-${i}`, name: 'Restart test product', price_amount: 1 }
      const created = await sendRequest('POST', 201, () => client.post('/products', body))
      if (created?.status === 201) ids.push(created.body.data.id)
      await sendRequest('GET', 200, () => client.get('/products?limit=5'))
      const id = ids[Math.floor(Math.random() * ids.length)]
      if (id) await sendRequest('GET one', 200, () => client.get(`/products/${id}`))
    }
  }
  const runningClients = Array.from({ length: clients }, runClient)

  for (let i = 0; i < restarts; i += 1) {
    const old = servers.shift()
    if (!old) break
    const startedAt = performance.now()
    old.child.kill('SIGTERM')
    report.codes.push((await old.ended).code)
    report.ends.push(performance.now() - startedAt)
    balancer.remove(old.url)
    servers.push(await startBalanced())
  }
  state.isOver = true
  await Promise.all(runningClients)

  report.written = ids.length
  const rows = await readNewestRows(client, '/products', () => true)
  const storedIds = new Set(rows.map(({ id }) => id))
  report.lost = ids.filter((id) => !storedIds.has(id)).length
  return report
}
