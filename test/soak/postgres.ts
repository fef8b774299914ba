/** A private PostgreSQL server on a free port, which a test can kill and restart. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openDatabase } from '../../drizzle/client/index.ts'
import type { Owner } from '../helpers/database.ts'
import { findFreePort } from '../helpers/listen.ts'
import { processorTime as processorTimeOf } from './pinned.ts'

const INSTALLED = '/usr/lib/postgresql'
/** Milliseconds. */
const PATIENCE = 60_000

/** The newest server on this machine; undefined where there is none. */
function binaries(): string | undefined {
  try {
    const newest = readdirSync(INSTALLED)
      .map(Number)
      .sort((a, b) => b - a)[0]
    return newest ? join(INSTALLED, String(newest), 'bin') : undefined
  } catch {
    return undefined
  }
}

/** PostgreSQL does not run as root: then as its own user. */
function owner(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

const childrenOf = (pid: number | undefined): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number)

/** What is gone already need not be killed. */
function killOne(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    return
  }
}

export interface PrivateServer {
  url: string
  /** Seconds of processor time that all its processes have had since it was started; 0 while it is not. */
  processorTime(): number
  version: string
  /** Kills all of its processes together, as a power failure does. */
  kill(): Promise<void>
  /** Resolves when it answers, after it has recovered. */
  start(): Promise<void>
}

export interface PrivateOptions {
  /** A streaming standby of this server, by `pg_basebackup`; else it is one of its own. */
  standbyOf?: string
  /** As for `postgres -c`. */
  settings?: Readonly<Record<string, string>>
}

/** Undefined where no PostgreSQL is installed. */
export async function privateServer(
  t: Owner,
  { standbyOf, settings = {} }: PrivateOptions = {},
): Promise<PrivateServer | undefined> {
  const bin = binaries()
  if (bin === undefined) return undefined
  const user = owner()
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-pg-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const quiet = { ...user, cwd: folder, stdio: 'ignore' as const }
  if (standbyOf === undefined) {
    execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'soak', '-E', 'UTF8'], quiet)
  } else {
    execFileSync(join(bin, 'pg_basebackup'), ['-d', standbyOf, '-D', data, '-R', '-c', 'fast'], quiet)
  }
  const port = await findFreePort()
  const url = `postgres://soak@127.0.0.1:${port}/postgres`
  let postmaster: ChildProcess | undefined

  const kill = async () => {
    const { pid, exitCode, signalCode } = postmaster ?? {}
    if (!postmaster || exitCode !== null || signalCode !== null) return
    const ended = once(postmaster, 'exit')
    const children = childrenOf(pid)
    postmaster.kill('SIGKILL')
    for (const child of children) killOne(child)
    await ended
  }

  const answers = async () => {
    try {
      const database = await openDatabase({ url, poolSize: 1 })
      await database.close()
      return true
    } catch {
      return false
    }
  }

  const start = async () => {
    const args = ['-D', data, '-p', String(port), '-k', folder, '-c', 'listen_addresses=127.0.0.1']
    args.push(...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]))
    for (const deadline = performance.now() + PATIENCE; performance.now() < deadline; await wait(20)) {
      // The memory of the former one is let go of only when the last of its processes is gone.
      if (!postmaster || postmaster.exitCode !== null || postmaster.signalCode !== null) {
        postmaster = spawn(join(bin, 'postgres'), args, quiet)
      }
      if (await answers()) return
    }
    throw new Error('PostgreSQL did not come back')
  }

  t.teardown(kill)
  await start()
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim()
  const processorTime = () => {
    const { pid, exitCode, signalCode } = postmaster ?? {}
    if (exitCode !== null || signalCode !== null) return 0
    const children = childrenOf(pid).map((child) => processorTimeOf(child))
    return processorTimeOf(pid, true) + children.reduce((sum, time) => sum + (time || 0), 0)
  }
  return { url, version, kill, start, processorTime }
}
