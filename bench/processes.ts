/** Starts processes bound to CPU cores, and stops them at the end of a run. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'

export const SERVER_CORE = 0
/** The core of PostgreSQL and of the load generator. */
export const LOAD_CORE = 1
/** Milliseconds from SIGTERM to SIGKILL. */
const STOP_TIMEOUT_MS = 10_000

const running = new Set<ChildProcess>()

interface Command {
  /** One core, or a list in the syntax of `taskset`. */
  core: number | string
  args: readonly string[]
  env?: NodeJS.ProcessEnv
  cwd?: string
}

/** Starts a command. `taskset` replaces itself with the command, so the child's process id is the command's. */
export function startProcess({ core, args, env, cwd }: Command): ChildProcess {
  const child = spawn('taskset', ['-c', String(core), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

/** Runs a command to its end and returns its standard output. @throws Error if the exit code is not 0 */
export async function runProcess(command: Command): Promise<string> {
  const child = startProcess(command)
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${command.args.join(' ')} exited with ${code}: ${stderr}${stdout}`)
  return stdout
}

export async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await exited
  clearTimeout(timer)
}

export const stopAllProcesses = (): Promise<unknown> => Promise.all([...running].map(stopProcess))

export function isInstalled(command: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
