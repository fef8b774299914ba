/**
 * Sends events to streams. A stream catches up first: it reads the events before those that the other streams have. Then it
 * follows with them: each new event is read once, and sent to the streams that select it.
 */
import { ApiError, apiError } from '@resource-api/api/errors'
import type { Database } from '@resource-api/database'
import type { FastifyBaseLogger } from 'fastify'
import createLimit from 'p-limit'
import { EventDecisions, type RelatedResources } from './decisions.ts'
import type { LastPosition } from './feed.ts'
import type { FeedPosition } from './feed-state.ts'
import type { ReadEventPage } from './page.ts'
import type { EventRow } from './represent-event.ts'
import { type EventStream, PAUSE_BYTES, type StreamFormat } from './stream.ts'

/** Events, and bytes of their resources, that one statement reads. */
export const BATCH_SIZE = 100
const BATCH = { limit: BATCH_SIZE, maxBytes: 1_048_576 }
/** Of earlier events: the unread bytes of a stream that catches up are at most these and those of one page. */
const EARLIER_BATCH = { limit: BATCH_SIZE, maxBytes: PAUSE_BYTES }
/** Statements that read earlier events at the same time. The streams take turns. */
const MAX_CONCURRENT_READS = 2

export interface DistributorOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'warn'>
  readPage: ReadEventPage
  related: RelatedResources
  format: StreamFormat
}

const getPosition = ({ position, id }: FeedPosition): FeedPosition => ({ position, id })

export class Distributor {
  readonly #options: DistributorOptions
  /** The streams that have all events up to `#reached`. The others catch up. */
  readonly #following = new Set<EventStream>()
  /** Work in progress, for which a shutdown waits. */
  readonly #running = new Set<Promise<void>>()
  readonly #limitReads = createLimit(MAX_CONCURRENT_READS)
  /** The event up to which events were sent to all streams that follow; of no meaning while none does. */
  #reached: FeedPosition = { position: 0, id: '' }
  /** The last known position of the feed. */
  #last: LastPosition = { position: 0 }
  /** Whether the feed may have events after `#reached`, or have lost it. */
  #isBehind = false
  #isReading = false
  #hasFailed = false

  constructor(options: DistributorOptions) {
    this.#options = options
  }

  add(stream: EventStream): void {
    this.#track(this.#catchUp(stream))
  }

  remove(stream: EventStream): void {
    this.#following.delete(stream)
  }

  /** Sends the events up to the last position of the feed, which is a smaller one after a restore of a backup. */
  advance(last: LastPosition): void {
    this.#last = last
    const { position, id } = this.#reached
    if (last.position === position && (last.id === undefined || last.id === id)) return
    this.#isBehind = true
    this.#readNew()
  }

  /** Reads new events again, if that failed. */
  retry(): void {
    if (this.#hasFailed) this.#readNew()
  }

  /** Returns the event up to which a stream has all events. */
  getReached(stream: EventStream): FeedPosition {
    const isShared = this.#following.has(stream) && this.#reached.position > stream.reached.position
    return isShared ? this.#reached : stream.reached
  }

  /** Waits for statements in progress. */
  async waitForReads(): Promise<void> {
    await Promise.all(this.#running)
  }

  #track(work: Promise<void>): void {
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  /** Sends the events before those that the other streams have, then lets the stream follow with them. */
  async #catchUp(stream: EventStream): Promise<void> {
    const { database, log, readPage } = this.#options
    const { rules, actor, filters } = stream.options
    let { last } = stream.options
    try {
      while (stream.end === undefined) {
        const target = this.#following.size === 0 ? last : this.#reached
        // In the same turn, so that no event falls between.
        if (stream.reached.position >= target.position) return this.#follow(stream)
        // Before the page is read: its rows would be in memory for as long as a slow client reads.
        await stream.waitForReader()
        const page = await this.#limitReads(async () =>
          // The stream may have ended while it waited for its turn.
          stream.end === undefined
            ? await readPage(database, {
                ...EARLIER_BATCH,
                filters,
                reader: { rules, actor },
                from: stream.reached,
              })
            : undefined,
        )
        if (!page) return
        const decisions = new EventDecisions(this.#options.related)
        await decisions.add(database, [stream.options], page.events)
        for (const event of page.events) this.#send(stream, event, { cache: new Map(), decisions })
        last = page.last
        stream.reached = getPosition((page.hasMore && page.events.at(-1)) || last)
        // A later snapshot has an earlier end: the other streams follow events that the feed has lost.
        if (last.position < target.position) this.#expireFollowing(apiError('EVENTS_EXPIRED'))
        await stream.waitForLimit(page.bytes)
      }
    } catch (err) {
      if (err instanceof ApiError) return this.#expire(stream, err)
      log.warn({ err }, 'earlier events could not be read for a stream')
      // The client connects again, and gets the error as a response if it lasts.
      stream.close('error')
    }
  }

  #follow(stream: EventStream): void {
    if (this.#following.size === 0) this.#reached = stream.reached
    this.#following.add(stream)
    // What was announced while no stream followed.
    this.advance(this.#last)
  }

  #expire(stream: EventStream, error: ApiError): void {
    stream.write(this.#options.format.writeError(error, stream.options))
    stream.close('expired')
  }

  #expireFollowing(error: ApiError): void {
    for (const stream of this.#following) this.#expire(stream, error)
  }

  #readNew(): void {
    if (!this.#isReading) this.#track(this.#distributeNew())
  }

  /** Reads on only after a full page, or if the feed has advanced since: never the same page again. */
  async #distributeNew(): Promise<void> {
    this.#isReading = true
    try {
      while (this.#isBehind && this.#following.size > 0) await this.#distributePage()
      this.#hasFailed = false
    } catch (err) {
      // The next position or the next check tries again.
      this.#isBehind = true
      if (!this.#hasFailed) this.#options.log.warn({ err }, 'new events could not be read for the streams')
      this.#hasFailed = true
    } finally {
      this.#isReading = false
    }
  }

  async #distributePage(): Promise<void> {
    const { database, readPage } = this.#options
    const from = this.#reached
    this.#isBehind = false
    const page = await readPage(database, { ...BATCH, from }).catch((error: unknown) => {
      if (error instanceof ApiError) return error
      throw error
    })
    const decisions = new EventDecisions(this.#options.related)
    if (!(page instanceof ApiError)) await this.#decide(decisions, page.events)
    // Other streams follow than before.
    if (from !== this.#reached) this.#isBehind = true
    // The feed has lost the event.
    else if (page instanceof ApiError) this.#expireFollowing(page)
    else {
      for (const event of page.events) {
        const shared = { cache: new Map(), decisions }
        for (const stream of this.#following)
          if (stream.selects(event, decisions)) this.#send(stream, event, shared)
      }
      this.#reached = getPosition((page.hasMore && page.events.at(-1)) || page.last)
      this.#isBehind ||= page.hasMore
    }
  }

  /** Asks what related rows decide, again for streams that have begun to follow in the meantime. */
  async #decide(decisions: EventDecisions, events: readonly EventRow[]): Promise<void> {
    const { database } = this.#options
    const ask = () =>
      decisions.add(
        database,
        [...this.#following].map(({ options }) => options),
        events,
      )
    for (let asked = ask(); asked; asked = ask()) await asked
  }

  #send(stream: EventStream, event: EventRow, shared: Parameters<StreamFormat['writeEvent']>[2]): void {
    stream.write(this.#options.format.writeEvent(event, stream.options, shared))
    stream.reached = getPosition(event)
  }
}
