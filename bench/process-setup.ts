/** Starts one or two processes of the service behind HAProxy, without or with Redis, for `npm run bench:processes`. */
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchContext } from './command.ts'
import { startProcess, stopProcess } from './processes.ts'
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

export interface Setup {
  processes: 1 | 2
  redis: boolean
}

export interface RunningSetup {
  servers: readonly ChildProcess[]
  proxy: ChildProcess
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

async function startServer({ database, options }: BenchContext, port: number, redis: boolean) {
  const child = startProcess({
    core: ALL_CORES,
    args: [options.node, ...options.flags, serviceWithKey.script],
    cwd: serviceWithKey.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: database.url,
      POOL_SIZE: String(options.poolSize),
      TRUST_PROXY: '127.0.0.1',
      ...(redis && { REDIS_URL: `redis://127.0.0.1:${REDIS_PORT}` }),
      ...serviceWithKey.env,
    },
  })
  child.stdout?.on('data', (text: Buffer | string) => {
    if (text.includes(LOST_REDIS)) console.warn(`The server on port ${port}: ${text}`)
  })
  const base = `http://127.0.0.1:${port}`
  await waitForResponse(child, { name: `the server on port ${port}`, base, path: '/readyz', status: 200 })
  return child
}

export async function startSetup(context: BenchContext, setup: Setup): Promise<RunningSetup> {
  const redis = setup.redis ? startRedis(context) : undefined
  const servers: ChildProcess[] = []
  for (let i = 0; i < setup.processes; i += 1) {
    servers.push(await startServer(context, FIRST_SERVER_PORT + i, setup.redis))
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
