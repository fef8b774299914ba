/** Restarts two servers behind a load balancer in turn while clients read and write. */

import { startBalancer } from '../helpers/balancer.ts'
import type { Owner } from '../helpers/database.ts'
import { type ProductLoad, startProductLoad } from './product-load.ts'
import { failIf, formatTimes, printViolations, summarize } from './report.ts'
import { createAdmin, createDatabaseSettings, startSoakServer } from './server.ts'

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
}

export interface RestartReport extends ProductLoad {
  lost: number
  /** Milliseconds from SIGTERM to the end of each process, and the exit codes. */
  ends: number[]
  codes: (number | null)[]
}

/** Runs the load and restarts the servers one after the other. */
export async function rollingRestarts(t: Owner, options: RestartOptions): Promise<RestartReport> {
  const { settings, restarts, clients, pause, delay } = options
  const balancer = await startBalancer(t)
  const startBalanced = async () => {
    const server = await startSoakServer(t, { ...settings, SHUTDOWN_DELAY: String(delay) })
    await balancer.add(server.url)
    return server
  }
  const servers = await Promise.all([startBalanced(), startBalanced()])
  const ends: number[] = []
  const codes: (number | null)[] = []
  const stop = startProductLoad({ client: createAdmin(balancer.url), clients, sku: 'ROLL', pause })
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
      ` processes ended ${Math.round(Math.min(...ends))} to ${Math.round(Math.max(...ends))} ms after SIGTERM,` +
      ` exit codes ${[...new Set(codes)].join()}`,
  )
  printViolations(failed)
  failIf(lost > 0 || codes.some((code) => code !== 0))
}
