/** Consumers as kinds of work: each has one row, whose payload is its cursor. An attempt handles events one after the other. */
import { ApiError } from '@resource-api/api/errors'
import { type Connection, prepare } from '@resource-api/database'
import { eventFeed, toNames, work } from '@resource-api/database/tables'
import { createSlots, GIVEN_BACK, runWithTimeout, toErrorText, type WorkKind } from '@resource-api/work'
import { eq, isNull, sql } from 'drizzle-orm'
import { createWorkRunner, type WorkOptions } from '../background/own-work.ts'
import { type FeedPosition, readFirstPosition, readLastPosition } from '../events/feed-state.ts'
import type { ReadEventPage } from '../events/page.ts'
import type { EventRow } from '../events/represent-event.ts'
import { handledChannel } from './channels.ts'
import type { ConsumedEvent, Consumer } from './definition.ts'

/** Events, and bytes of their resources, that one statement reads. */
const PAGE = { limit: 100, maxBytes: 1_048_576 }
/** The pause before the same event is handled again: it doubles with each failure. */
const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 300_000
/** Of an attempt, which lasts for as long as there are events. Each event has its own deadline. */
const NO_DEADLINE_MS = 2 ** 31 - 1

/** What a consumer has as `payload`. A type, so that it is a record. */
export type ConsumerState = {
  /** The event up to which all are handled: its position and its id. */
  position: number
  event_id: string
  /** The failures since the last success, and the event that could not be handled. */
  failures: number
  failed_position?: number
  failed_event_id?: string
}

export interface ConsumerOptions extends WorkOptions {
  readPage: ReadEventPage
  toEvent(row: EventRow): ConsumedEvent
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
  /** Called when a cursor was stored and the claim given back: there may be events that were announced before. */
  onRest(): void
}

export const toConsumerKind = (name: string): string => `consumer:${name}`

/** Why a consumer cannot go on, how far it is, and the event that it could not handle, if it was one. */
class HandlingError extends Error {
  readonly state: ConsumerState
  readonly event: EventRow | undefined
  constructor(state: ConsumerState, event: EventRow | undefined, cause: unknown) {
    super('a consumer failed', { cause })
    this.state = state
    this.event = event
  }
}

export function createConsumerKind(consumer: Consumer, options: ConsumerOptions): WorkKind {
  const { database, readPage, toEvent, leaseMs, queue, onRest } = options
  const { name, timeoutMs } = consumer
  const log = options.log.child({ consumer: name })
  const runWork = createWorkRunner(options)
  const kind = toConsumerKind(name)

  const handle = async (row: EventRow, signal: AbortSignal): Promise<void> => {
    try {
      const onTimeout = () => log.warn({ event_id: row.id, timeout_ms: timeoutMs }, 'an event takes too long')
      await runWithTimeout(signal, { timeoutMs, isExclusive: true, onTimeout }, (eventSignal) =>
        runWork(log, eventSignal, (context) => consumer.handle(toEvent(row), context)),
      )
    } catch (error) {
      if (!signal.aborted) handledChannel.publish({ name, result: 'failed' })
      throw error
    }
    handledChannel.publish({ name, result: 'succeeded' })
  }

  /** Reads the events after the cursor. If the feed has lost some of them, those that it still has. */
  const readNext = async (from: FeedPosition) => {
    const filters = { filters: { type: [...consumer.types] }, bounds: [], words: [], conditions: [] }
    try {
      return { from, page: await readPage(database, { ...PAGE, filters, from }) }
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'EVENTS_EXPIRED') throw error
      const first = await readFirstPosition(database)
      log.warn(
        { position: from.position, first_position: first.position + 1 },
        'the feed has no longer the event of the cursor: the consumer goes on with the first event that there is',
      )
      return { from: first, page: await readPage(database, { ...PAGE, filters, from: first }) }
    }
  }

  return {
    name: kind,
    slots: createSlots(1),
    ...{ leaseMs, timeoutMs: NO_DEADLINE_MS, isExclusive: true },
    async register() {
      const { position, id } = await (consumer.from === 'end' ? readLastPosition : readFirstPosition)(
        database,
      )
      const payload: ConsumerState = { position, event_id: id, failures: 0 }
      return queue.enqueue(database, { kind, key: name, payload })
    },
    async run({ payload }, { signal, save }) {
      // The row was written by `register` or by this function.
      let state = payload as ConsumerState
      let isSaved = true
      /** The event that is being handled. */
      let current: EventRow | undefined
      try {
        for (let hasMore = true; hasMore && !signal.aborted; ) {
          const { from, page } = await readNext({ position: state.position, id: state.event_id })
          state = { ...state, position: from.position, event_id: from.id }
          for (current of page.events) {
            // After each event, so that a process that is killed repeats one at most.
            if (!isSaved && !(await save(state))) return GIVEN_BACK
            isSaved = true
            signal.throwIfAborted()
            await handle(current, signal)
            if (state.failures > 0) log.info({ event_id: current.id }, 'the consumer goes on')
            state = { position: current.position, event_id: current.id, failures: 0 }
            isSaved = false
          }
          current = undefined
          hasMore = page.hasMore
          // An event that failed was removed since.
          if (!hasMore) state = { position: page.last.position, event_id: page.last.id, failures: 0 }
        }
      } catch (error) {
        // A shutdown is no failure: what was handled is stored.
        if (!signal.aborted) throw new HandlingError(state, isSaved ? current : undefined, error)
      }
      return {
        ...{ status: 'pending', payload: state, isUncounted: true },
        delayMs: signal.aborted ? 0 : null,
        ...(state.failures === 0 && { error: null }),
      }
    },
    fail({ payload }, error) {
      const isHandling = error instanceof HandlingError
      // As in `run`.
      const { failures, ...state } = isHandling ? error.state : (payload as ConsumerState)
      const failed = isHandling ? error.event : undefined
      const err = isHandling ? error.cause : error
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures)
      log.error(
        { err, event_id: failed?.id, failures: failures + 1, retry_in_ms: delayMs },
        failed ? 'an event could not be handled' : 'the events could not be read',
      )
      const next: ConsumerState = {
        ...{ position: state.position, event_id: state.event_id, failures: failures + 1 },
        ...(failed && { failed_position: failed.position, failed_event_id: failed.id }),
      }
      return { status: 'pending', delayMs, error: toErrorText(err), payload: next, isUncounted: true }
    },
    afterSave: async () => onRest(),
  }
}

const position = sql`(${work.payload} ->> 'position')::bigint`

/** The feed of the database, since this process may not know the events that another one has handled. */
const markDue = prepare((db) =>
  db.execute(sql`update ${work} set ${toNames(work.next_attempt_at)} = statement_timestamp()
    where ${work.kind} <> 'delivery' and ${work.kind} = any(${sql.placeholder('kinds')}::text[])
      and ${work.next_attempt_at} is null
      and ${position} <> (select ${eventFeed.last_position} from ${eventFeed}) returning 1`),
)

/** Makes consumers due that wait for events and are not at the last one. @returns whether there are any */
export const markConsumers = async (connection: Connection, names: readonly string[]): Promise<boolean> =>
  (await markDue(connection, { kinds: names.map(toConsumerKind) })).length > 0

/** Moves the cursor after the event that fails. @returns no row if none fails, or if it is being handled */
export const skipFailed = async (
  connection: Connection,
  name: string,
): Promise<{ position: number; event_id: string }[]> => {
  const getField = (field: keyof ConsumerState) => sql`${work.payload} -> ${sql.raw(`'${field}'`)}`
  return connection
    .update(work)
    .set({
      // Citus accepts no `jsonb_build_object`, which is stable.
      payload: sql`jsonb_set(jsonb_set(${work.payload} || '{"failures": 0}', '{position}', ${getField('failed_position')}),
        '{event_id}', ${getField('failed_event_id')}) - 'failed_position' - 'failed_event_id'`,
      next_attempt_at: sql`statement_timestamp()`,
      error: null,
    })
    .where(
      sql`${eq(work.kind, toConsumerKind(name))} and ${getField('failed_position')} is not null
        and ${isNull(work.claim_id)}`,
    )
    .returning({
      position: sql<number>`${position}`.as('position'),
      event_id: sql<string>`${work.payload} ->> 'event_id'`.as('event_id'),
    })
}
