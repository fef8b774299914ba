/** Starts the service or a command as a separate process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { allSettings } from '../../http/src/config/all-settings.ts'
import { APP_SECRET, WITHOUT_LIMITS } from '../src/app.ts'
import { type Owner, testDatabaseUrl, testFolder, withSchema } from './database.ts'

export { WITHOUT_LIMITS }

const root = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * Makes V8 optimize only what is called very often. Without, a process that ends within a second spends a third of its
 * CPU on optimizing: a server starts with 0.8 s of CPU instead of 1.1.
 */
export const SHORT_RUN = ['--interrupt-budget=1000000']

export interface ProcessExit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface RunningProcess {
  child: ChildProcess
  /** Standard output and standard error so far. */
  output: { out: string; err: string }
  ended: Promise<ProcessExit>
}

/** Whether processes run the build, as `npm start` does; `npm run test:all` makes it first. */
const runsBuild = process.env.TEST_BUILD === '1'

/** Empty, which is the default: a process reads `.env` of the repository too, which a contributor may have. */
const NO_SETTINGS = Object.fromEntries(Object.keys(allSettings.properties).map((name) => [name, '']))

/** The flags of Node.js with which a process runs TypeScript. */
export const SOURCE_FLAGS = ['--conditions=resource-api', '--import=./packages/testing/run/typescript.js']

/**
 * Runs a module of `src` with only these environment variables. It is killed after the test.
 */
export function startModule(
  t: Owner,
  file: string,
  settings: NodeJS.ProcessEnv,
  args: readonly string[] = [],
  flags: readonly string[] = [],
): RunningProcess {
  const env = { PATH: process.env.PATH, ...NO_SETTINGS, ...withSchema(settings) }
  const module = runsBuild ? `dist/src/${file.replace(/\.ts$/, '.js')}` : `src/${file}`
  // The same option as in the processes of tests, see `typescript.js`.
  const nodeFlags = ['--liftoff-only', ...(runsBuild ? [] : SOURCE_FLAGS), ...flags]
  const child = spawn(process.execPath, [...nodeFlags, module, ...args], { cwd: root, env })
  const output = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.err += text
  })
  // 'close' and not 'exit': only then everything that was output has arrived.
  const ended = once(child, 'close').then(([code, signal]): ProcessExit => ({ code, signal }))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, output, ended }
}

/** Runs code of the sources in another process, and returns the process and its first line of output. */
export async function startCode(t: Owner, code: string) {
  const child = spawn(process.execPath, [...SOURCE_FLAGS, '--input-type=module', '-e', code], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = await once(createInterface(child.stdout), 'line')
  return { child, line: String(line) }
}

/** Returns settings of a server on a free port with a migrated database and without rate limits. */
export async function createServerSettings(t: Owner): Promise<NodeJS.ProcessEnv> {
  const { url, dataDir = testFolder(t) } = await testDatabaseUrl(t)
  const secret = { APP_SECRET }
  const database = { ...(url && { DATABASE_URL: url }), DATA_DIR: dataDir }
  return { PORT: '0', ...WITHOUT_LIMITS, ...secret, ...database }
}

/** A server that has output it is ready, and the address that it named. */
export async function startServer(
  t: Owner,
  settings: NodeJS.ProcessEnv,
  file = 'server.ts',
  flags: readonly string[] = [],
): Promise<RunningProcess & { url: string }> {
  const running = startModule(t, file, settings, [], flags)
  const ready = /"address":"(https?:[^"]+)"|Ready at (https?:[^\s,]+)/
  let over = false
  void running.ended.then(() => {
    over = true
  })
  for (;;) {
    const found = ready.exec(running.output.out)
    const url = found?.[1] ?? found?.[2]
    if (url) return { ...running, url }
    if (over) throw new Error(`the server ended: ${running.output.err}${running.output.out}`)
    await wait(20)
  }
}
