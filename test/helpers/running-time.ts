/** Elapsed time without the pauses that the machine imposes on this process. */
import { setInterval } from 'node:timers'

/** Milliseconds. */
const TICK = 10

let last = performance.now()
let paused = 0

/** Returns the delay of the next tick in milliseconds; a short delay is ignored. */
function pauseUntil(now: number): number {
  const gap = now - last
  return gap > 2 * TICK ? gap - TICK : 0
}

setInterval(() => {
  const now = performance.now()
  paused += pauseUntil(now)
  last = now
}, TICK).unref()

/**
 * A clock for upper bounds, in milliseconds, in place of `performance.now()`: it stands still while this process is
 * paused, so that a busy machine does not make a deadline look missed. Waiting counts, computing in one turn does not.
 */
export function getRunningTime(): number {
  const now = performance.now()
  return now - paused - pauseUntil(now)
}
