/** Pings: a query that checks whether the database answers, shared by all callers that wait for it. */
import { DatabaseUnavailable } from '../errors.ts'

/** Options of connections for pings. A ping waits no longer than these, and is itself the check of the connection. */
export const PING_OPTIONS = {
  ...{ statementTimeout: 1000, connectTimeout: 1000, grace: 0 },
  pingAfterIdleMs: Number.POSITIVE_INFINITY,
}

/**
 * Runs `work` after pending socket data is read. For timers that detect a missing answer: after the process itself has
 * stalled, the answer may be there unread, because the event loop runs timers before it polls sockets.
 */
export const afterPendingReads = (work: () => void): void => void setImmediate(work)

/** @throws DatabaseUnavailable if there is no answer within `timeout` milliseconds */
export async function withTimeout(answer: Promise<unknown>, timeout: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timedOut = new Promise<never>((_, reject) => {
    const error = new DatabaseUnavailable(`The database did not answer within ${timeout} ms`)
    timer = setTimeout(() => afterPendingReads(() => reject(error)), timeout)
  })
  await Promise.race([answer, timedOut]).finally(() => clearTimeout(timer))
}

/** Returns a function that calls `query` and rejects after a timeout in milliseconds. Concurrent calls share a query. */
export function createPing(query: () => Promise<unknown>): (timeout: number) => Promise<void> {
  let running: Promise<unknown> | undefined
  return (timeout) => {
    running ??= query().finally(() => {
      running = undefined
    })
    return withTimeout(running, timeout)
  }
}
