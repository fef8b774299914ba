/** Reads the CPU time of processes from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

/** Microseconds of a clock tick: /proc counts in USER_HZ, which is 100 on Linux. */
const TICK_MICROSECONDS = 10_000

interface ProcessStat {
  parent: number
  /** Microseconds of all threads of the process, ended ones included. */
  own: number
  /** Microseconds of ended child processes. */
  endedChildren: number
}

function readStat(pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The process name in front of the last parenthesis may contain spaces and parentheses.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [parent = 0, user = 0, system = 0, childUser = 0, childSystem = 0] = [1, 11, 12, 13, 14].map(
      (i) => fields[i],
    )
    return {
      parent,
      own: (user + system) * TICK_MICROSECONDS,
      endedChildren: (childUser + childSystem) * TICK_MICROSECONDS,
    }
  } catch {
    return undefined
  }
}

/** Returns the microseconds of CPU that a process has used. */
export const readProcessCpu = (pid: number): number => readStat(pid)?.own ?? 0

/** Returns the microseconds of CPU that a process and its children have used, ended children included. */
export function readProcessTreeCpu(pid: number): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const children = pids.map((name) => readStat(Number(name))).filter((stat) => stat?.parent === pid)
  const parent = readStat(pid)
  const running = children.reduce((sum, stat) => sum + (stat?.own ?? 0), 0)
  return (parent?.own ?? 0) + (parent?.endedChildren ?? 0) + running
}
