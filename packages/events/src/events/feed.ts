/** Runs the sequencer: soon after a commit in this process, and regularly for those of processes that have ended. */

import type { Database } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/concurrency'
import { isStatementTimeout } from '@resource-api/database/errors'
import { createPollInterval, POLL_INTERVAL_MS } from '@resource-api/work'
import type { FastifyBaseLogger } from 'fastify'
import { type FeedPosition, readLastPosition } from './feed-state.ts'
import { assignBatch, type BatchStep, readPendingAge } from './sequencer.ts'

/** Time in which commits are collected to one batch. */
const WAKE_DELAY_MS = 25
/**
 * The same under load, within the 100 ms in which a commit reaches a stream: an event costs PostgreSQL 54 us in batches of
 * 25, 37 in those of 100 and 29 in those of 200.
 */
const BUSY_WAKE_DELAY_MS = 60
/** The events of a batch from which on it is under load. */
const BUSY_BATCH_SIZE = 25
/**
 * The least time between runs, as a multiple of the last batch's. A batch takes long if rows that were deleted from the
 * outbox cannot be removed, because a backup or another old snapshot is open.
 */
const PAUSE_PER_BATCH = 3
/** Pause after a failure. */
const RETRY_DELAY_MS = 1_000

/** The last position of the feed, with the id of its event if it was read. */
export type LastPosition = Pick<FeedPosition, 'position'> & Partial<FeedPosition>

/** @param hasStreams returns whether other processes' events must reach streams of this one within a second */
export function createFeed(
  database: Database,
  log: Pick<FastifyBaseLogger, 'warn' | 'info'>,
  hasStreams: () => boolean,
) {
  const listeners: ((last: LastPosition) => void)[] = []
  const steps: BatchStep[] = []
  let last: LastPosition = { position: 0 }
  /** The share of the largest batch that the next one may have. */
  let share = 1
  /** Seconds, as last read. */
  let pendingAge = 0
  let batchDuration = 0
  let isUnderLoad = false
  let isWoken = false
  const pollInterval = createPollInterval()

  const advance = (next: LastPosition) => {
    if (next.position === last.position && (next.id === undefined || next.id === last.id)) return
    last = next
    pollInterval.touch()
    for (const listener of listeners) listener(last)
  }

  /** Assigns a batch. One that takes too long is tried again at half the size by the next call. */
  const assign = async () => {
    const startedAt = performance.now()
    try {
      const assignment = await assignBatch(database, steps, share)
      if (!assignment.isBusy && !assignment.isFull) share = 1
      isUnderLoad = assignment.last - last.position >= BUSY_BATCH_SIZE
      return assignment
    } catch (error) {
      if (isStatementTimeout(error)) share /= 2
      throw error
    } finally {
      batchDuration = performance.now() - startedAt
    }
  }

  const assignPending = async () => {
    let isFull = true
    while (isFull && !task.isStopped) {
      const assignment = await assign()
      isFull = assignment.isFull
      // The other process may have begun before a commit of this one.
      if (assignment.isBusy) isWoken = true
      else advance({ position: assignment.last })
      if (!assignment.isBusy && !isFull) pendingAge = 0
    }
  }

  const poll = async () => {
    const age = await readPendingAge(database)
    pendingAge = age ?? 0
    if (age !== undefined) await assignPending()
    else advance(await readLastPosition(database))
  }

  const task: BackgroundTask = new BackgroundTask({
    work() {
      const wasWoken = isWoken
      isWoken = false
      return wasWoken ? assignPending() : poll()
    },
    getDelay() {
      const delay = isUnderLoad ? BUSY_WAKE_DELAY_MS : WAKE_DELAY_MS
      if (isWoken) return Math.max(delay, PAUSE_PER_BATCH * batchDuration)
      return hasStreams() ? POLL_INTERVAL_MS : pollInterval.get()
    },
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, 'event positions could not be assigned'),
    onRecovery: () => log.info('event positions are assigned again'),
  })

  return {
    /** Makes the sequencer run soon after a commit in this process. */
    wake() {
      isWoken = true
      pollInterval.touch()
      task.wake()
    },

    /** Makes the next poll earlier if a stream was opened. */
    reschedule: () => task.wake(),

    /**
     * Calls the listener with the last position when it is another one: after each batch that this process sees, assigned
     * here or elsewhere, and when the database was restored from a backup.
     */
    onAdvance: (listener: (last: LastPosition) => void) => void listeners.push(listener),

    /** Adds a step to the transaction that assigns positions. */
    addBatchStep: (step: BatchStep) => void steps.push(step),

    /** Begins to run. */
    start: () => task.start(),

    /** Assigns positions to all events that are committed now, also while another run assigns some. */
    async assignAll(): Promise<void> {
      for (;;) {
        await task.running
        const { isBusy, isFull, last: position } = await assign()
        if (!isBusy) advance({ position })
        if (!isBusy && !isFull) return
      }
    },

    /** Returns the age in seconds of the oldest change without a position, as last read; -1 after a failure. */
    getPendingAge: () => (task.hasFailed ? -1 : pendingAge),

    /** Stops the runs, and waits for one in progress. */
    stop: () => task.stop(),
  }
}

export type Feed = ReturnType<typeof createFeed>
