/** A question whether the database answers, asked once for all who want to know at the same time. */
import { DatabaseUnavailable } from './errors.ts'

/** `ask` runs one at a time; each caller waits for it at most as long as it wants to, in milliseconds. */
export function createPing(ask: () => Promise<unknown>): (timeout: number) => Promise<void> {
  let asking: Promise<unknown> | undefined
  return async (timeout) => {
    asking ??= ask().finally(() => {
      asking = undefined
    })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const error = new DatabaseUnavailable(`The database did not answer within ${timeout} ms`)
      timer = setTimeout(reject, timeout, error)
    })
    try {
      await Promise.race([asking, late])
    } finally {
      clearTimeout(timer)
    }
  }
}
