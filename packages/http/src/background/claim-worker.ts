/** Claims rows whose work is due, and does it: several rows at the same time, one process at a time for each. */
import { setTimeout as wait } from 'node:timers/promises'
import { BackgroundTask } from '@resource-api/database/internal'
import type { FastifyBaseLogger } from 'fastify'

/** How often due rows are looked for at least, for changes by commands and by processes that ended. */
const MAX_INTERVAL_MS = 60_000
/** Pause after a failure of the database. */
const RETRY_DELAY_MS = 1_000
/** Time in which work may end at a shutdown. */
const SHUTDOWN_MS = 10_000

interface ClaimWorkerOptions<C> {
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  /** Names the work in log lines. */
  title: string
  /** Claims what is due. @returns it, and the milliseconds until more is due */
  claimDue(): Promise<{ claimed: C[]; dueInMs: number }>
  /** Does the work of a row, and stores its result. It does not throw. */
  run(claimed: C, stopping: AbortSignal): Promise<void>
}

export function createClaimWorker<C>({ log, title, claimDue, run }: ClaimWorkerOptions<C>) {
  const stopping = new AbortController()
  const running = new Set<Promise<void>>()
  let isWoken = false
  /** When rows are looked for again: a time of `performance.now()`. */
  let nextRead = 0

  const task: BackgroundTask = new BackgroundTask({
    async work() {
      isWoken = false
      const { claimed, dueInMs } = await claimDue()
      nextRead = performance.now() + Math.min(MAX_INTERVAL_MS, Math.max(0, dueInMs))
      for (const each of claimed) {
        const work = run(each, stopping.signal)
        running.add(work)
        void work.finally(() => {
          running.delete(work)
          wake()
        })
      }
    },
    getDelay: () => (isWoken ? 0 : Math.max(0, nextRead - performance.now())),
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, `${title} cannot be claimed`),
    onRecovery: () => log.info(`${title} are claimed again`),
  })

  const wake = () => {
    isWoken = true
    task.wake()
  }

  return {
    start: () => task.start(),
    /** Looks for due rows now. */
    wake,
    /** Whether the database did not answer. */
    hasFailed: () => task.hasFailed,
    /** Claims no more, and aborts what runs. */
    async pause(): Promise<void> {
      stopping.abort(new DOMException('the process shuts down', 'AbortError'))
      await task.stop()
    },
    /** Waits for what runs, for ten seconds. */
    async stop(): Promise<void> {
      await task.stop()
      const ended = new AbortController()
      const timeout = wait(SHUTDOWN_MS, undefined, { signal: ended.signal }).catch(() => {})
      await Promise.race([Promise.all(running), timeout])
      ended.abort()
    },
  }
}

/**
 * Stores a result, again and again until the database has it, or the claim is lost.
 * @param signal that of the claim
 * @returns whether the claim was still held
 */
export async function storeResult(
  signal: AbortSignal,
  log: Pick<FastifyBaseLogger, 'warn'>,
  store: () => Promise<readonly unknown[]>,
): Promise<boolean> {
  for (let attempts = 1; ; attempts++) {
    try {
      return (await store()).length > 0
    } catch (err) {
      if (attempts === 1) log.warn({ err }, 'the result could not be stored')
      if (signal.aborted) return false
      await wait(RETRY_DELAY_MS, undefined, { signal }).catch(() => {})
    }
  }
}
