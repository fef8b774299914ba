/** CPU time of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

/** Microseconds of a clock tick: /proc counts in USER_HZ, which is 100 on every Linux. */
const TICK = 10_000

interface Stat {
  parent: number
  /** Of all its threads, those that ended too. */
  own: number
  /** Of children that ended. */
  children: number
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name before it may hold spaces and brackets.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [parent = 0, user = 0, system = 0, childUser = 0, childSystem = 0] = [1, 11, 12, 13, 14].map(
      (i) => fields[i],
    )
    return { parent, own: (user + system) * TICK, children: (childUser + childSystem) * TICK }
  } catch {
    return undefined
  }
}

/** Microseconds of CPU that a process has used. */
export const cpuOf = (pid: number): number => statOf(pid)?.own ?? 0

/** Microseconds of CPU that a process and its children have used, those that ended too. */
export function cpuOfFamily(pid: number): number {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const children = all.map((name) => statOf(Number(name))).filter((stat) => stat?.parent === pid)
  const head = statOf(pid)
  const living = children.reduce((sum, stat) => sum + (stat?.own ?? 0), 0)
  return (head?.own ?? 0) + (head?.children ?? 0) + living
}
