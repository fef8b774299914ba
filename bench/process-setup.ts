/**
 * Starts the setups of `npm run bench:processes`: one or two processes of the service behind HAProxy, without or with Redis,
 * or one or several workers on one port.
 */
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchContext } from './command.ts'
import { isInstalled, startProcess, stopProcess } from './processes.ts'
import { FIRST_PORT, waitForResponse } from './target-process.ts'
import { serviceWithKey } from './targets/resource-api.ts'

/** No process is bound to a core, so that two servers can use both. */
export const ALL_CORES = `0-${cpus().length - 1}`
export const PROXY_PORT = FIRST_PORT
const REDIS_PORT = FIRST_PORT + 1
const FIRST_SERVER_PORT = FIRST_PORT + 2

const proxySample = fileURLToPath(new URL('../deploy/haproxy/haproxy.cfg', import.meta.url))

/** The log line of a server that counts by itself, because Redis did not answer in time. */
const LOST_REDIS = 'the store of the rate limits is unavailable'

/** The log line of a server whose workers have all started. */
const HAS_WORKERS = 'without REDIS_URL each worker process counts'

export interface Setup {
  processes: 1 | 2
  redis: boolean
  /** The workers of the only process, which is then without HAProxy; undefined with HAProxy. */
  workers?: number
}

/** @throws Error if a program is not installed */
export function checkPrograms(...programs: readonly string[]): void {
  for (const program of programs) if (!isInstalled(program)) throw new Error(`${program} is not installed`)
}

export interface RunningSetup {
  servers: readonly ChildProcess[]
  proxy: ChildProcess | undefined
  redis: ChildProcess | undefined
}

/** Returns the sample configuration of HAProxy with the ports of the bench and without TLS. */
function adaptProxySample(processes: number): string {
  const replacements: [string, string][] = [
    ['frontend http\n  bind :80\n  http-request redirect scheme https code 308\n', ''],
    [
      'bind :443 ssl crt /etc/ssl/resource-api/fullchain-and-key.pem ssl-min-ver TLSv1.2 alpn h2,http/1.1',
      `bind 127.0.0.1:${PROXY_PORT}`,
    ],
    ['127.0.0.1:3001', `127.0.0.1:${FIRST_SERVER_PORT}`],
    processes === 1
      ? ['  server two 127.0.0.1:3002\n', '']
      : ['127.0.0.1:3002', `127.0.0.1:${FIRST_SERVER_PORT + 1}`],
  ]
  return replacements.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`${proxySample} has no "${from}"`)
      return text.replace(from, to)
    },
    readFileSync(proxySample, 'utf8'),
  )
}

function startRedis(context: BenchContext): ChildProcess {
  const flags = ['--port', `${REDIS_PORT}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  return startProcess({ core: ALL_CORES, args: ['redis-server', ...flags], cwd: context.temporaryFolder })
}

async function startServer(
  { database, options }: BenchContext,
  port: number,
  { redis, workers }: Pick<Setup, 'redis' | 'workers'>,
) {
  const child = startProcess({
    core: ALL_CORES,
    args: [options.node, ...options.flags, serviceWithKey.script],
    cwd: serviceWithKey.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: database.url,
      POOL_SIZE: String(options.poolSize),
      ...(workers === undefined ? { TRUST_PROXY: '127.0.0.1' } : { WORKERS: String(workers) }),
      ...(redis && { REDIS_URL: `redis://127.0.0.1:${REDIS_PORT}` }),
      ...serviceWithKey.env,
    },
  })
  let hasStarted = (_value?: unknown) => {}
  const allStarted = workers !== undefined && workers > 1 && new Promise((resolve) => (hasStarted = resolve))
  child.stdout?.on('data', (text: Buffer | string) => {
    if (text.includes(LOST_REDIS)) console.warn(`The server on port ${port}: ${text}`)
    if (text.includes(HAS_WORKERS)) hasStarted()
  })
  const base = `http://127.0.0.1:${port}`
  await waitForResponse(child, { name: `the server on port ${port}`, base, path: '/readyz', status: 200 })
  await allStarted
  return child
}

export async function startSetup(context: BenchContext, setup: Setup): Promise<RunningSetup> {
  if (setup.workers !== undefined)
    return { servers: [await startServer(context, PROXY_PORT, setup)], proxy: undefined, redis: undefined }
  const redis = setup.redis ? startRedis(context) : undefined
  const servers: ChildProcess[] = []
  for (let i = 0; i < setup.processes; i += 1) {
    servers.push(await startServer(context, FIRST_SERVER_PORT + i, setup))
  }
  const file = join(context.temporaryFolder, 'haproxy.cfg')
  writeFileSync(file, adaptProxySample(setup.processes))
  const proxy = startProcess({ core: ALL_CORES, args: ['haproxy', '-db', '-f', file] })
  const base = `http://127.0.0.1:${PROXY_PORT}`
  await waitForResponse(proxy, { name: 'haproxy', base, path: '/readyz', status: 200 })
  return { servers, proxy, redis }
}

export async function stopSetup({ servers, proxy, redis }: RunningSetup): Promise<void> {
  for (const child of [proxy, ...servers, redis]) if (child) await stopProcess(child)
}
