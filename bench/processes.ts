/** The processes of a run: each on its core, and ended with the run. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'

/** Server here, PostgreSQL and load there. */
export const SERVER_CORE = 0
export const LOAD_CORE = 1

const running = new Set<ChildProcess>()

interface Command {
  /** One, or some as `taskset` names them. */
  core: number | string
  args: readonly string[]
  env?: NodeJS.ProcessEnv
  cwd?: string
}

/** `taskset` becomes the command itself, so that the child's id is that of the command. */
export function start({ core, args, env, cwd }: Command): ChildProcess {
  const child = spawn('taskset', ['-c', String(core), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

/** Runs a command to its end and gives what it printed. */
export async function finish(command: Command): Promise<string> {
  const child = start(command)
  let out = ''
  let err = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${command.args.join(' ')} ended with ${code}: ${err}${out}`)
  return out
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await ended
  clearTimeout(late)
}

export const stopAll = (): Promise<unknown> => Promise.all([...running].map(stop))

export function has(command: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
