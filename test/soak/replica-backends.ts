/** Starts the programs of the replicas test: haproxy, Redis, a seeded PostgreSQL and its delayed streaming standby. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Owner, testFolder } from '../helpers/database.ts'
import { findFreePort } from '../helpers/listen.ts'
import { startModule } from '../helpers/process.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'

export interface Backends {
  primary: PrivatePostgres
  standby: PrivatePostgres
  redis: { url: string; pid: number | undefined }
}

const STANDBY_DELAY_MS = 500

/** Returns the name of a required program that is not installed, or undefined. */
export function findMissingProgram(): string | undefined {
  return ['haproxy', 'redis-server'].find((name) => {
    try {
      execFileSync(name, ['--version'], { stdio: 'ignore' })
      return false
    } catch (error) {
      return error instanceof Error && 'code' in error && error.code === 'ENOENT'
    }
  })
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

/** Starts Redis, a seeded primary and its standby. Returns undefined if PostgreSQL is not installed. */
export async function startBackends(t: Owner): Promise<Backends | undefined> {
  const primary = await startPrivatePostgres(t)
  if (!primary) return undefined
  const seed = startModule(t, 'cli.js', { DATABASE_URL: primary.url }, ['seed', '--users', '1000'])
  const { code } = await seed.ended
  if (code !== 0) throw new Error(`seed: ${seed.output.err}`)
  const standby = await startPrivatePostgres(t, {
    standbyOf: primary.url,
    settings: { recovery_min_apply_delay: `${STANDBY_DELAY_MS}ms` },
  })
  if (!standby) return undefined
  const port = await findFreePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '']
  const { pid } = startProgram(t, 'redis-server', args)
  return { primary, standby, redis: { url: `redis://127.0.0.1:${port}`, pid } }
}
