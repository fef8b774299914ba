/** Rejects a promise that does not settle in time. */

const STEPS = 4

/**
 * Returns the result of `work`, or rejects after `timeoutMs`. The time is measured in four steps. If the event loop was
 * blocked, only one step passes in that time, so that responses which have already arrived are still read.
 */
export const withTimeout = <T>(timeoutMs: number, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let stepsLeft = STEPS
    const timer = setInterval(() => {
      stepsLeft -= 1
      if (stepsLeft > 0) return
      clearInterval(timer)
      reject(new Error(`No response within ${timeoutMs} ms`))
    }, timeoutMs / STEPS)
    work.finally(() => clearInterval(timer)).then(resolve, reject)
  })
