/** Starts a separate PostgreSQL on a free port, whose processes a test may kill and restart. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openDatabase } from '../../packages/database/src/client/index.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { findFreePort } from '../../packages/testing/helpers/network.ts'
import { SkippedError } from './server.ts'

const INSTALLATIONS_FOLDER = '/usr/lib/postgresql'
const START_TIMEOUT_MS = 60_000

/** Returns the programs' folder of the newest installed version, or undefined. */
export function findBinFolder(): string | undefined {
  if (!existsSync(INSTALLATIONS_FOLDER)) return undefined
  const versions = readdirSync(INSTALLATIONS_FOLDER).map(Number)
  return versions.length > 0 ? join(INSTALLATIONS_FOLDER, String(Math.max(...versions)), 'bin') : undefined
}

/** Returns the ids of the user `postgres` if this process runs as root, which PostgreSQL refuses. */
function getUserIds(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const readId = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  return { uid: readId('-u'), gid: readId('-g') }
}

const readChildPids = (pid: number | undefined): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number)

/** Kills a process if it still exists. */
function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    return
  }
}

async function acceptsConnections(url: string): Promise<boolean> {
  const database = await openDatabase({ url, poolSize: 1 }).catch(() => undefined)
  await database?.close()
  return database !== undefined
}

/** Creates and starts a PostgreSQL. @throws SkippedError if PostgreSQL is not installed */
export async function startPrivatePostgres(t: Owner) {
  const bin = findBinFolder()
  if (bin === undefined) throw new SkippedError('PostgreSQL is not installed')
  const user = getUserIds()
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-pg-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const spawnOptions = { ...user, cwd: folder, stdio: 'ignore' as const }
  execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'soak', '-E', 'UTF8'], spawnOptions)
  const port = await findFreePort()
  const url = `postgres://soak@127.0.0.1:${port}/postgres`
  const args = ['-D', data, '-p', String(port), '-k', folder, '-c', 'listen_addresses=127.0.0.1']
  let postmaster: ChildProcess | undefined

  const getPid = () =>
    postmaster?.exitCode === null && postmaster.signalCode === null ? postmaster.pid : undefined

  /**
   * Kills all of its processes together, as a power failure would: the children of a postmaster that is killed would
   * continue.
   */
  const kill = async () => {
    const pid = getPid()
    if (!postmaster || pid === undefined) return
    const exited = once(postmaster, 'exit')
    for (const each of [pid, ...readChildPids(pid)]) killProcess(each)
    await exited
  }

  /** Resolves when PostgreSQL has recovered and accepts connections. */
  const start = async () => {
    const deadline = performance.now() + START_TIMEOUT_MS
    for (; performance.now() < deadline; await wait(20)) {
      // A start fails until the last of the killed processes has released the shared memory.
      if (getPid() === undefined) postmaster = spawn(join(bin, 'postgres'), args, spawnOptions)
      if (await acceptsConnections(url)) return
    }
    throw new Error('PostgreSQL did not start')
  }

  t.teardown(kill)
  await start()
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim()
  return { url, version, kill, start }
}
