/** Counts the rows of all kinds of work from time to time, and adds the rows that must exist. */
import type { Database } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/concurrency'
import type { FastifyBaseLogger } from 'fastify'
import type { WorkKind } from './kinds.ts'
import { readStates, type WorkState } from './work-store.ts'

/** Between two counts, at least while there is work, and at most. One that takes long takes 2 % of the time. */
const INTERVAL_MS = 1_000
const MAX_INTERVAL_MS = 60_000
const PAUSE_FACTOR = 50
/** Pause after a failure of the database: it doubles with each further one. */
const RETRY_DELAY_MS = 1_000
const MAX_RETRY_DELAY_MS = 8_000

const NO_ROWS = { waiting: 0, failed: 0, oldest_ms: null, payload: null }

interface StatesOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'warn'>
  kinds: ReadonlyMap<string, WorkKind>
  /** Called when a row was added that was missing. */
  onAdded(): void
}

/** Counts in a task of its own: a count that takes long must not delay the claims. */
export function createWorkStates({ database, log, kinds, onAdded }: StatesOptions) {
  let states: ReadonlyMap<string, WorkState> = new Map()
  /** When the next count may begin, and whether there was work since the latest one. */
  let nextCount = 0
  let hasChanged = true

  async function count(): Promise<void> {
    hasChanged = false
    if (kinds.size === 0) return
    const startedAt = performance.now()
    states = new Map((await readStates(database)).map((state) => [state.kind, state]))
    const endedAt = performance.now()
    nextCount = endedAt + Math.max(INTERVAL_MS, PAUSE_FACTOR * (endedAt - startedAt))
    // Rows are missing in a database that was restored from an older backup.
    for (const { name, register, isRegistered } of kinds.values()) {
      const payload = states.get(name)?.payload
      if (!register || (payload && isRegistered?.(payload) !== false)) continue
      if (await register()) onAdded()
    }
  }

  const task = new BackgroundTask({
    work: count,
    getDelay: () => (hasChanged ? Math.max(0, nextCount - performance.now()) : MAX_INTERVAL_MS),
    ...{ retryDelay: RETRY_DELAY_MS, maxRetryDelay: MAX_RETRY_DELAY_MS },
    onFailure: (err) => log.warn({ err }, 'work cannot be counted'),
  })
  return {
    start: () => task.start(),
    stop: () => task.stop(),
    /** Lets the rows be counted soon: one was added, or has changed. */
    touch() {
      hasChanged = true
      task.wake()
    },
    /** Returns the state of a kind as last read, a minute ago at most; undefined while the database does not answer. */
    get: (name: string): WorkState | undefined =>
      task.hasFailed ? undefined : (states.get(name) ?? { ...NO_ROWS, kind: name }),
  }
}
