/** Restarts two servers behind a load balancer in turn while clients read and write. */
import { setTimeout as wait } from 'node:timers/promises'
import { ADMIN_KEY, createClient } from '../../packages/testing/helpers/app.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { startProductLoad } from './product-load.ts'
import { failIf, formatRange, formatTimes, printViolations, summarize } from './report.ts'
import { createDatabaseSettings, startSoakServer } from './server.ts'

/** Time between two health checks of a server. */
const CHECK_INTERVAL_MS = 100
const CHECK_TIMEOUT_MS = 1_000

interface RestartOptions {
  /** The settings of both servers, with the `DATABASE_URL` of a shared PostgreSQL. */
  settings: NodeJS.ProcessEnv
  /** The total number of restarts. */
  restarts: number
  clients: number
  /** Average milliseconds between two requests of a client. */
  pause: number
  /** SHUTDOWN_DELAY in milliseconds: from the 503 of `/readyz` to the end of listening. */
  delay: number
}

/** Chooses servers as a load balancer does: those whose `/readyz` is 200, in turn. It repeats no request. */
function createBalancer(t: Owner) {
  const servers = new Map<string, { isReady: boolean; timer: NodeJS.Timeout }>()
  let turn = 0
  const remove = (url: string) => {
    clearInterval(servers.get(url)?.timer)
    servers.delete(url)
  }
  t.teardown(() => [...servers.keys()].forEach(remove))
  return {
    /** Starts the health checks of a server, and resolves when it is ready. */
    async add(url: string): Promise<void> {
      const check = async () => {
        const options = { headers: { connection: 'close' }, signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) }
        const reply = await fetch(`${url}/readyz`, options).catch(() => undefined)
        server.isReady = reply?.status === 200
        await reply?.arrayBuffer()
      }
      const server = { isReady: false, timer: setInterval(check, CHECK_INTERVAL_MS) }
      servers.set(url, server)
      while (!server.isReady) await wait(5)
    },
    remove,
    choose(): string {
      const ready = [...servers].filter(([, { isReady }]) => isReady)
      const [url] = ready[turn++ % ready.length] ?? []
      if (url === undefined) throw new Error('No server is ready')
      return url
    },
  }
}

/** Runs the load and restarts the servers one after the other. */
async function rollingRestarts(t: Owner, options: RestartOptions) {
  const { settings, restarts, clients, pause, delay } = options
  const balancer = createBalancer(t)
  const startBalanced = async () => {
    const server = await startSoakServer(t, { ...settings, SHUTDOWN_DELAY: String(delay) })
    await balancer.add(server.url)
    return server
  }
  const servers = await Promise.all([startBalanced(), startBalanced()])
  /** Milliseconds from SIGTERM to the end of each process, and the exit codes. */
  const ends: number[] = []
  const codes: (number | null)[] = []
  const client = createClient(balancer.choose, { 'x-api-key': ADMIN_KEY })
  const stop = startProductLoad(client, { clients, sku: 'ROLL', pause })
  for (let i = 0; i < restarts; i += 1) {
    const old = servers.shift()
    if (!old) break
    const startedAt = performance.now()
    old.child.kill('SIGTERM')
    codes.push((await old.ended).code)
    ends.push(performance.now() - startedAt)
    balancer.remove(old.url)
    servers.push(await startBalanced())
  }
  return { ...(await stop()), ends, codes }
}

export async function soakRestarts(t: Owner): Promise<void> {
  console.log('two servers behind a load balancer, 20 restarts in turn, 16 clients, PostgreSQL')
  const settings = await createDatabaseSettings(t)
  const load = { settings, restarts: 20, clients: 16, pause: 10, delay: 1_000 }
  const { answered, failed, written, lost, times, ends, codes } = await rollingRestarts(t, load)
  console.log(
    `  ${answered} requests answered, ${failed.length} failed; ${written} writes acknowledged, ${lost} lost;` +
      ` ms: ${formatTimes(summarize(times))} (p50, p99, max);` +
      ` processes ended ${formatRange(ends)} ms after SIGTERM (min, median, max),` +
      ` exit codes ${[...new Set(codes)].join()}`,
  )
  printViolations(failed)
  failIf(lost > 0 || codes.some((code) => code !== 0))
}
