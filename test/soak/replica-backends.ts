/** Starts the programs of the replicas test: haproxy, Redis, a seeded PostgreSQL and its delayed streaming standby. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Owner, testFolder } from '../helpers/database.ts'
import { findFreePort } from '../helpers/listen.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'
import { SkippedError, seedDatabase } from './server.ts'

export interface Backends {
  primary: PrivatePostgres
  standby: PrivatePostgres
  redis: { url: string; pid: number | undefined }
}

const STANDBY_DELAY_MS = 500

/** @throws SkippedError if a program is not installed */
function requireProgram(name: string): void {
  const { error } = spawnSync(name, ['--version'], { stdio: 'ignore' })
  if (error) throw new SkippedError(`${name} is not installed (apt-get install ${name})`)
}

function startProgram(t: Owner, command: string, args: string[]): ChildProcess {
  const child = spawn(command, args, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return child
}

export async function startHaproxy(t: Owner, servers: readonly string[]) {
  const port = await findFreePort()
  const file = join(testFolder(t), 'haproxy.cfg')
  const serverLines = servers.map((url, i) => `  server s${i} ${new URL(url).host} check inter 500ms`)
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 2s
  timeout client 15s
  timeout server 15s
  timeout http-keep-alive 4s
frontend all
  bind 127.0.0.1:${port}
  default_backend servers
backend servers
  balance roundrobin
  http-reuse safe
  option httpchk GET /readyz
  http-check expect status 200
${serverLines.join('\n')}
`,
  )
  const { pid } = startProgram(t, 'haproxy', ['-db', '-f', file])
  return { url: `http://127.0.0.1:${port}`, pid }
}

/** Starts Redis, a seeded primary and its standby. @throws SkippedError if a program is not installed */
export async function startBackends(t: Owner): Promise<Backends> {
  requireProgram('haproxy')
  requireProgram('redis-server')
  const primary = await startPrivatePostgres(t)
  await seedDatabase(t, { DATABASE_URL: primary.url }, 1_000)
  const standby = await startPrivatePostgres(t, {
    standbyOf: primary.url,
    settings: { recovery_min_apply_delay: `${STANDBY_DELAY_MS}ms` },
  })
  const port = await findFreePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '']
  const { pid } = startProgram(t, 'redis-server', args)
  return { primary, standby, redis: { url: `redis://127.0.0.1:${port}`, pid } }
}
