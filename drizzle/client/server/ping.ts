/** A question whether the database answers, asked once for all who want to know at the same time. */
import { DatabaseUnavailable } from '../errors.ts'

/** Milliseconds; no ping waits longer than the first two, and one is question enough. */
export const PING = {
  statementTimeout: 1000,
  connectTimeout: 1000,
  grace: 0,
  trust: Number.POSITIVE_INFINITY,
}

/**
 * For what a timer finds late: where the process itself has stalled, the answer lies there unread, since timers come
 * before sockets. It is read first.
 */
export const afterSockets = (work: () => void): void => void setImmediate(work)

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
      timer = setTimeout(() => afterSockets(() => reject(error)), timeout)
    })
    try {
      await Promise.race([asking, late])
    } finally {
      clearTimeout(timer)
    }
  }
}
