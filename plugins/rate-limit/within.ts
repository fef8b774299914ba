/** Patience: a promise, or an error where it takes too long. */

const STEPS = 4

/**
 * Waits in steps: when this process itself was busy, one step is over and not all of them, so that what has arrived
 * meanwhile is still read.
 */
export const within = <T>(milliseconds: number, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let left = STEPS
    const timer = setInterval(() => {
      left -= 1
      if (left > 0) return
      clearInterval(timer)
      reject(new Error(`No answer within ${milliseconds} ms`))
    }, milliseconds / STEPS)
    work.then(
      (value) => {
        clearInterval(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearInterval(timer)
        reject(error)
      },
    )
  })
