/** Handles the events of a claimed consumer, one after the other, and stores its cursor. */

import { newId } from '@resource-api/database'
import { eventConsumers } from '@resource-api/database/internal'
import {
  ApiError,
  type Claimed,
  createClaims,
  runWithTimeout,
  storeResult,
  toErrorText,
} from '@resource-api/http/internal'
import type { FastifyBaseLogger } from 'fastify'
import { createWorkRunner, type WorkOptions } from '../background/own-work.ts'
import { type FeedPosition, readFirstPosition } from '../events/feed-state.ts'
import type { ReadEventPage } from '../events/page.ts'
import type { EventRow } from '../events/represent-event.ts'
import { handledChannel } from './channels.ts'
import { type ConsumerState, claim, fail, type Progress, release, save } from './consumer-store.ts'
import type { ConsumedEvent, Consumer } from './definition.ts'

/** Events, and bytes of their resources, that one statement reads. */
const PAGE = { limit: 100, maxBytes: 1_048_576 }
/** The pause before the same event is handled again: it doubles with each failure. */
const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 300_000

export interface ConsumerRunnerOptions extends WorkOptions {
  consumers: readonly Consumer[]
  readPage: ReadEventPage
  toEvent(row: EventRow): ConsumedEvent
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

export type ClaimedConsumer = Claimed & ConsumerState

/** The event that could not be handled, with the reason as `cause`. */
class HandlingError extends Error {
  readonly event: EventRow
  constructor(event: EventRow, cause: unknown) {
    super('an event could not be handled', { cause })
    this.event = event
  }
}

/** Another process may have the consumer, or the process shuts down. */
class InterruptedError extends Error {}

const toCursor = ({ position, id }: FeedPosition): FeedPosition => ({ position, id })

export function createConsumerRunner(options: ConsumerRunnerOptions) {
  const { database, log, consumers, readPage, toEvent, leaseMs } = options
  const runWork = createWorkRunner(options)
  const claims = createClaims(eventConsumers, database, leaseMs)
  const byName = new Map(consumers.map((consumer) => [consumer.name, consumer]))

  const handle = async (
    consumer: Consumer,
    row: EventRow,
    consumerLog: FastifyBaseLogger,
    signal: AbortSignal,
  ): Promise<void> => {
    const { name, timeoutMs } = consumer
    try {
      await runWithTimeout(
        signal,
        timeoutMs,
        (eventSignal) =>
          runWork(consumerLog, eventSignal, (context) => consumer.handle(toEvent(row), context)),
        () =>
          consumerLog.warn(
            { event_id: row.id },
            'the handling of an event has reached its timeout: its signal is aborted',
          ),
      )
    } catch (error) {
      if (signal.aborted) throw new InterruptedError()
      handledChannel.publish({ name, result: 'failed' })
      throw new HandlingError(row, error)
    }
    handledChannel.publish({ name, result: 'succeeded' })
  }

  /** Reads the events after the cursor. If the feed has lost some of them, those that it still has. */
  const readNext = async (consumer: Consumer, from: FeedPosition, consumerLog: FastifyBaseLogger) => {
    const filters = { filters: { type: [...consumer.types] }, bounds: [], words: [], conditions: [] }
    try {
      return { from, page: await readPage(database, { ...PAGE, filters, from }) }
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'EVENTS_EXPIRED') throw error
      const first = await readFirstPosition(database)
      consumerLog.warn(
        { position: from.position, first_position: first.position + 1 },
        'the feed has no longer the event of the cursor: the consumer goes on with the first event that there is',
      )
      return { from: first, page: await readPage(database, { ...PAGE, filters, from: first }) }
    }
  }

  const runClaimed = async (consumer: Consumer, claimed: ClaimedConsumer, signal: AbortSignal) => {
    const consumerLog = log.child({ consumer: claimed.name })
    const progress: Progress = {
      name: claimed.name,
      claimId: claimed.claim_id,
      cursor: { position: claimed.position, id: claimed.event_id },
      failures: claimed.failures,
    }
    const store = (statement: () => Promise<readonly unknown[]>) =>
      storeResult(signal, consumerLog, statement)

    const handleAll = async () => {
      let isSaved = true
      for (let hasMore = true; hasMore; ) {
        const { from, page } = await readNext(consumer, progress.cursor, consumerLog)
        progress.cursor = from
        for (const row of page.events) {
          // After each event, so that a process that is killed repeats one at most.
          if (!isSaved && !(await store(() => save(database, progress)))) throw new InterruptedError()
          isSaved = true
          if (signal.aborted) throw new InterruptedError()
          await handle(consumer, row, consumerLog, signal)
          if (progress.failures > 0) consumerLog.info({ event_id: row.id }, 'the consumer goes on')
          progress.failures = 0
          progress.cursor = toCursor(row)
          isSaved = false
        }
        hasMore = page.hasMore
        if (!hasMore) progress.cursor = page.last
      }
      // An event that failed was removed since.
      progress.failures = 0
    }

    try {
      await handleAll()
      await store(() => release(database, progress))
    } catch (error) {
      if (error instanceof InterruptedError) {
        await store(() => release(database, progress))
        return
      }
      const failed = error instanceof HandlingError ? toCursor(error.event) : undefined
      const err = error instanceof HandlingError ? error.cause : error
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** progress.failures)
      progress.failures += 1
      consumerLog.error(
        { err, event_id: failed?.id, failures: progress.failures, retry_in_ms: delayMs },
        failed ? 'an event could not be handled' : 'the events could not be read',
      )
      await store(() => fail(database, progress, { error: toErrorText(err), delayMs, failed }))
    }
  }

  return {
    leaseMs: claims.leaseMs,

    /** Claims the consumers that have events before them. */
    async claim(): Promise<{ states: ConsumerState[]; claimed: ClaimedConsumer[] }> {
      const claimedAt = performance.now()
      const claim_id = newId()
      const states = await claim(database, [...byName.keys()], claim_id, claims.leaseMs)
      const claimed = states.filter(({ is_claimed }) => is_claimed)
      return { states, claimed: claimed.map((state) => ({ ...state, claim_id, claimedAt })) }
    },

    /** Handles the events of a claimed consumer up to the end of the feed. */
    async run(claimed: ClaimedConsumer, stopping: AbortSignal): Promise<void> {
      const consumer = byName.get(claimed.name)
      if (consumer) await claims.hold(claimed, stopping, (signal) => runClaimed(consumer, claimed, signal))
    },
  }
}
