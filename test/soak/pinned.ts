/** Runs processes on separate CPUs, so that the load generator takes no CPU time from the server. */
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { LoadOptions, LoadReport } from './load.ts'

/** Of the server, and of the load. */
export const PROCESSORS = { server: 0, load: 1 }

/** Binds a process with all its threads to one processor; says whether this machine can. */
export function pin(pid: number | undefined, processor: number): boolean {
  if (pid === undefined || processor >= availableParallelism()) return false
  try {
    execFileSync('taskset', ['-a', '-c', '-p', String(processor), String(pid)], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Seconds of processor time that a process has had, with its children that have ended if asked for; in hundredths. */
export function processorTime(pid: number | undefined, withEnded = false): number {
  try {
    const times = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 15) ?? []
    const [user = Number.NaN, system = Number.NaN, ...ended] = times.map(Number)
    return (user + system + (withEnded ? ended.reduce((sum, time) => sum + time, 0) : 0)) / 100
  } catch {
    return Number.NaN
  }
}

/**
 * Runs a load in a process of its own.
 * @param isPinned false where the server is not pinned either, so that the load need not wait for one processor
 */
export async function runLoad(options: LoadOptions, isPinned = true): Promise<LoadReport> {
  const child = fork(new URL('load.ts', import.meta.url), { execArgv: ['--import=tsx'] })
  if (isPinned) pin(child.pid, PROCESSORS.load)
  const answer = once(child, 'message')
  const failure = once(child, 'exit').then(([code]) => Promise.reject(new Error(`the load ended: ${code}`)))
  failure.catch(() => undefined)
  child.send(options)
  const [report] = await Promise.race([answer, failure])
  return report
}
