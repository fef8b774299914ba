/** The service as a process of its own, as people start it: what it says, what it answers, how it ends. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Owner, testDatabaseUrl, testFolder } from './database.ts'
import { WITHOUT_LIMITS } from './without-limits.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface Running {
  child: ChildProcess
  /** What came on standard output and on standard error so far. */
  said: { out: string; err: string }
  ended: Promise<Ended>
}

/**
 * Runs a module of `src` as `npm start` does, built (`npm test` builds first), with these settings and none of this
 * process's; killed after the test if it still runs.
 */
export function run(
  t: Owner,
  file: string,
  settings: NodeJS.ProcessEnv,
  args: readonly string[] = [],
  flags: readonly string[] = [],
): Running {
  const env = { PATH: process.env.PATH, ...settings }
  const module = `dist/src/${file.replace(/\.ts$/, '.js')}`
  // As in the tests' own processes (`typescript.js`).
  const child = spawn(process.execPath, ['--liftoff-only', ...flags, module, ...args], { cwd: root, env })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.err += text
  })
  // 'close' and not 'exit': only then everything that was said has arrived.
  const ended = once(child, 'close').then(([code, signal]): Ended => ({ code, signal }))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, said, ended }
}

/** The settings of a server on a free port over a migrated database of its own, without limits. */
export async function ownSettings(t: Owner): Promise<NodeJS.ProcessEnv> {
  const { url, dataDir = testFolder(t) } = await testDatabaseUrl(t)
  const secret = { APP_SECRET: 'test-secret-test-secret-test-secret-test' }
  const database = { ...(url && { DATABASE_URL: url }), DATA_DIR: dataDir }
  return { PORT: '0', ...WITHOUT_LIMITS, ...secret, ...database }
}

/** A server that has said it is ready, and the address that it named. */
export async function serve(
  t: Owner,
  settings: NodeJS.ProcessEnv,
  file = 'server.ts',
  flags: readonly string[] = [],
): Promise<Running & { url: string }> {
  const running = run(t, file, settings, [], flags)
  const ready = /"address":"(https?:[^"]+)"|Ready at (https?:[^\s,]+)/
  let over = false
  void running.ended.then(() => {
    over = true
  })
  for (;;) {
    const found = ready.exec(running.said.out)
    const url = found?.[1] ?? found?.[2]
    if (url) return { ...running, url }
    if (over) throw new Error(`the server ended: ${running.said.err}${running.said.out}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
