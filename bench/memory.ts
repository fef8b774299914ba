/** What a process has in memory, from /proc. */
import { readFileSync } from 'node:fs'

/** Megabytes resident. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
  return Number(kilobytes) / 1024
}

/** Looks every second. @returns what it saw since it was asked last, and its end */
export function watchMemory(pid: number): { seen(): number[]; end(): void } {
  let seen: number[] = []
  const timer = setInterval(() => seen.push(memoryOf(pid)), 1_000)
  return {
    seen() {
      const before = seen
      seen = []
      return before
    },
    end: () => clearInterval(timer),
  }
}
