/** Spreads long synchronous work over iterations of the event loop. */

/**
 * Returns a function whose promises resolve in an event loop iteration of their own, so that other connections are served
 * in between: 20 bodies of 1 MiB that arrive together would otherwise block them for the sum of their times.
 */
export function createTurns() {
  const waiting: (() => void)[] = []
  const runNext = () => {
    const resolve = waiting.shift()
    // An immediate that is set by an immediate runs in the next iteration.
    if (waiting.length > 0) setImmediate(runNext)
    resolve?.()
  }
  return (): Promise<void> =>
    new Promise((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(runNext)
    })
}
