/** What work is that requests enqueue: its name, what is done, and when it is attempted again. */
import { type Duration, toMilliseconds } from '@resource-api/database/values'
import type { WorkName, WorkPayloads } from '@resource-api/resources/internal'
import { createRetrySchedule, RETRY_DELAYS_MS } from '@resource-api/work'
import { checkName, type OwnContext } from '../background/own-work.ts'

interface AttemptContext extends OwnContext {
  /** The same in every attempt, so that others recognize a repetition by it. */
  id: string
  /** The number of the attempt, from 1. */
  attempts: number
}

interface WorkDefinition<Name extends WorkName> {
  /** Lowercase words with hyphens. */
  name: Name
  /** The time after the first attempt that failed, the second, and so on; then the work has failed. Default: 10 in 3 days. */
  schedule?: readonly Duration[]
  /** After which time an attempt has failed. Default: 1 minute. */
  timeout?: Duration
  /** Attempts at the same time in each process. Default: 5. */
  concurrency?: number
  /**
   * Does the work: at least once, after the commit.
   * @throws Error if the attempt has failed
   */
  run(payload: WorkPayloads[Name], context: AttemptContext): Promise<unknown>
}

export interface Work {
  name: string
  timeoutMs: number
  concurrency: number
  maxAttempts: number
  getDelay(attempts: number): number | null
  run(payload: unknown, context: AttemptContext): Promise<unknown>
}

/** Defines work that requests enqueue: `store.enqueue(name, payload)`. @throws Error with the mistake */
export function defineWork<Name extends WorkName>(definition: WorkDefinition<Name>): Work {
  const { name, schedule, timeout = '1m', concurrency = 5, run } = definition
  checkName('Work', name)
  const delays = schedule?.map(toMilliseconds) ?? RETRY_DELAYS_MS
  return {
    name,
    timeoutMs: toMilliseconds(timeout),
    concurrency,
    maxAttempts: delays.length + 1,
    getDelay: createRetrySchedule(delays),
    // `store.enqueue` has written a payload of this type.
    run: (payload, context) => run(payload as WorkPayloads[Name], context),
  }
}
