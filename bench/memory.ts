/** Reads the resident memory of a process from /proc. */
import { readFileSync, writeFileSync } from 'node:fs'

function readMegabytes(pid: number, field: RegExp): number {
  return Number(field.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024
}

/** Returns the resident memory in megabytes. */
export const readResidentMemory = (pid: number): number => readMegabytes(pid, /^VmRSS:\s+(\d+) kB$/m)

/** Returns the largest resident memory since `resetPeakMemory`, in megabytes. */
export const readPeakMemory = (pid: number): number => readMegabytes(pid, /^VmHWM:\s+(\d+) kB$/m)

/** Makes the kernel forget the largest resident memory of a process. */
export const resetPeakMemory = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5')
