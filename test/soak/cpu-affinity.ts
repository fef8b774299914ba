/** Binds the server and the load generator to one processor each, so that they do not compete, and reads CPU times. */
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { LoadOptions, LoadReport } from './load-generator.ts'

export const PROCESSORS = { server: 0, load: 1 }
/** /proc counts in USER_HZ, which is 100 on Linux. */
const TICKS_PER_SECOND = 100

/** Binds all threads of a process to a processor. Returns false if the machine does not support it. */
export function bindToProcessor(pid: number | undefined, processor: number): boolean {
  if (pid === undefined || processor >= availableParallelism()) return false
  try {
    execFileSync('taskset', ['-a', '-c', '-p', String(processor), String(pid)], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Returns the CPU seconds of a process, optionally with those of its ended children; NaN if it has ended. */
export function readCpuSeconds(pid: number | undefined, withEndedChildren = false): number {
  try {
    const times = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 15) ?? []
    const [user = Number.NaN, system = Number.NaN, ...children] = times.map(Number)
    const childTicks = withEndedChildren ? children.reduce((sum, ticks) => sum + ticks, 0) : 0
    return (user + system + childTicks) / TICKS_PER_SECOND
  } catch {
    return Number.NaN
  }
}

/**
 * Runs the load generator in a separate process.
 * @param isBound false if the server is not bound to a processor either
 */
export async function runLoad(options: LoadOptions, isBound = true): Promise<LoadReport> {
  const child = fork(new URL('load-generator.ts', import.meta.url), { execArgv: ['--import=tsx'] })
  if (isBound) bindToProcessor(child.pid, PROCESSORS.load)
  const message = once(child, 'message')
  const failure = once(child, 'exit').then(([code]) =>
    Promise.reject(new Error(`The load generator exited with ${code}`)),
  )
  failure.catch(() => undefined)
  child.send(options)
  const [report] = await Promise.race([message, failure])
  return report
}
