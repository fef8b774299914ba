/** Reads the resident memory of a process from /proc. */
import { readFileSync } from 'node:fs'

const SAMPLE_INTERVAL_MS = 1_000

/** Returns the resident memory in megabytes. */
export function readResidentMemory(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
  return Number(kilobytes) / 1024
}

/** Samples the memory of a process every second. `take` returns the samples since the last call. */
export function sampleMemory(pid: number): { take(): number[]; stop(): void } {
  let samples: number[] = []
  const timer = setInterval(() => samples.push(readResidentMemory(pid)), SAMPLE_INTERVAL_MS)
  return {
    take() {
      const taken = samples
      samples = []
      return taken
    },
    stop: () => clearInterval(timer),
  }
}
