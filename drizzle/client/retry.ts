/** What the database itself asks to be tried again: the victim of a deadlock, a transaction that found no place in line. */
import { channel } from 'node:diagnostics_channel'
import { setTimeout as wait } from 'node:timers/promises'
import { DatabaseUnavailable } from './errors.ts'

/** What is published on `resource-api:database:retry`, before each try but the first. */
export interface Retry {
  /** SQLSTATE. */
  code: string
  /** From 1. */
  attempt: number
}

const AGAIN = new Set(['40P01', '40001'])
const MOST = 3
/** Milliseconds before the first try again, at most; twice as many before each further one. */
const BASE = 25

const retries = channel('resource-api:database:retry')

/**
 * Does `work` again where the database has undone it on account of others: at most three times, each after a pause
 * of random length, so that those who met do not meet again. Anything else, a lost COMMIT above all, is not repeated.
 */
export function retried<T>(work: () => Promise<T>, attempt = 1): Promise<T> {
  return work().catch(async (error) => {
    const code = error instanceof DatabaseUnavailable ? error.code : undefined
    if (attempt > MOST || code === undefined || !AGAIN.has(code)) throw error
    if (retries.hasSubscribers) retries.publish({ code, attempt } satisfies Retry)
    await wait(Math.random() * BASE * 2 ** (attempt - 1))
    return retried(work, attempt + 1)
  })
}
