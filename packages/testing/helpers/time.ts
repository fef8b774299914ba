/** Time in tests: conditions, promises and clocks that a test controls, and bounds that a busy machine does not break. */
import { setInterval } from 'node:timers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'

export { waitUntil } from '../src/wait-until.ts'

/** Returns a clock that stands still until it is moved; it starts at a whole second. */
export function createClock() {
  let time = Math.ceil(Date.now() / 1000) * 1000
  return {
    now: () => time,
    /** Epoch seconds. */
    seconds: () => time / 1000,
    pass(milliseconds: number) {
      time += milliseconds
    },
  }
}

export interface Deferred {
  promise: Promise<void>
  resolve(): void
}

export function createDeferred(): Deferred {
  let resolvePromise = () => {}
  const promise = new Promise<void>((resolve) => {
    resolvePromise = resolve
  })
  return { promise, resolve: () => resolvePromise() }
}

/**
 * Stops `performance.now()` until a test ends: the clock of queues, of idle connections and of cached credentials.
 * Timers go on.
 */
export function stopClock(t: Pick<Test, 'intercept'>) {
  let time = performance.now()
  t.intercept(performance, 'now', { value: () => time })
  return {
    pass(milliseconds: number) {
      time += milliseconds
    },
    /** Lets time pass, and waits until the caches of credentials have read the clock, which they do every 100 ms. */
    async expireCaches(milliseconds: number) {
      time += milliseconds
      await wait(150)
    },
  }
}

/** Milliseconds. */
const TICK = 10

let timer: NodeJS.Timeout | undefined
let last = 0
let paused = 0

/** Returns the delay of the next tick in milliseconds; a short delay is ignored. */
function pauseUntil(now: number): number {
  const gap = now - last
  return gap > 2 * TICK ? gap - TICK : 0
}

function tick(): void {
  const now = performance.now()
  paused += pauseUntil(now)
  last = now
}

/**
 * A clock for upper bounds, in milliseconds, in place of `performance.now()`: it stands still while this process is
 * paused, so that a busy machine does not make a deadline look missed. Waiting counts, computing in one turn does not.
 */
export function getRunningTime(): number {
  if (!timer) {
    last = performance.now()
    timer = setInterval(tick, TICK).unref()
  }
  const now = performance.now()
  return now - paused - pauseUntil(now)
}

/**
 * Sends a request again and again until one is refused, or for `limitMs`.
 * @param pauseMs milliseconds between two requests. Without a pause, they would use a whole core for seconds.
 * @returns milliseconds from the call until the last accepted request was sent
 */
export async function measureAcceptance(
  isAccepted: () => Promise<boolean>,
  limitMs: number,
  pauseMs = 10,
): Promise<number> {
  const begun = performance.now()
  let last = 0
  while (last < limitMs) {
    const sent = performance.now() - begun
    if (!(await isAccepted())) break
    last = sent
    await wait(pauseMs)
  }
  return last
}
