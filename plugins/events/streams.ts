/** The event streams of a process: reads each new event once, and sends it to the streams that select it. */
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import createLimit from 'p-limit'
import type { Database } from '../../drizzle/client/types.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import { ApiError, apiError } from '../errors/index.ts'
import { refusedChannel } from '../rate-limit/windows.ts'
import { publishStreamEnded } from './channels.ts'
import type { LastPosition } from './feed.ts'
import { type FeedPosition, readEventPage } from './page.ts'
import type { RecordedResource } from './readable.ts'
import type { EventRow } from './represent-event.ts'
import { EventStream, type StreamOptions } from './stream.ts'
import type { BlockCache, StreamFormat } from './stream-format.ts'

const MAX_STREAMS_PER_USER = 5
const RETRY_AFTER_SECONDS = 5
/** Events, and bytes of their resources, that one statement reads. */
export const BATCH_SIZE = 100
const MAX_BATCH_BYTES = 1_048_576
/** Statements that read earlier events at the same time. The streams take turns. */
const MAX_CONCURRENT_READS = 2
/** The first line of a stream: the milliseconds after which a client that was disconnected connects again. */
const RETRY_LINE = 'retry: 3000\n'
/** Interval of the credential checks. The results are cached for up to 4 s, and a revocation is effective within 5 s. */
const CHECK_INTERVAL_MS = 500
/** Intervals between two comments: 5 s. */
const CHECKS_PER_COMMENT = 10

export interface StreamsOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'warn' | 'info'>
  /** All resources whose changes are recorded. */
  resources: readonly RecordedResource[]
  format: StreamFormat
  maxStreams: number
  /** Returns the caller whose credential is in the request, if it is still valid. */
  readActor(request: FastifyRequest): MaybePromise<Actor | undefined>
}

const hasSameScopes = (a: Actor, b: Actor) =>
  a.scopes.size === b.scopes.size && [...a.scopes].every((scope) => b.scopes.has(scope))

/** Returns whether a credential still permits what it did when the stream began. */
const isUnchanged = (before: Actor, now: Actor | undefined) =>
  now !== undefined && now.userId === before.userId && now.role === before.role && hasSameScopes(before, now)

export class EventStreams {
  readonly #options: StreamsOptions
  readonly #all = new Set<EventStream>()
  /** The streams that have all events up to the position. The others read earlier events. */
  readonly #current = new Set<EventStream>()
  readonly #countByUser = new Map<string, number>()
  /** Work in progress, for which a shutdown waits. */
  readonly #running = new Set<Promise<void>>()
  readonly #limitReads = createLimit(MAX_CONCURRENT_READS)
  /** The event up to which new events were sent to all streams that have them; of no meaning while there are none. */
  #reached: FeedPosition = { position: 0, id: '' }
  /** The last known position of the feed. */
  #last: LastPosition = { position: 0 }
  /** Whether the feed may have events after `#reached`, or have lost it. */
  #isBehind = false
  #isReading = false
  #hasFailed = false
  #isClosing = false
  #checks = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: StreamsOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#all.size
  }

  /**
   * Checks that another stream may begin.
   * @throws ApiError 503 or 429
   */
  ensureRoom(userId: string): void {
    if (this.#isClosing || this.#all.size >= this.#options.maxStreams) {
      throw apiError('SERVICE_UNAVAILABLE', {
        message: 'This process has no room for another stream',
        retryAfter: RETRY_AFTER_SECONDS,
      })
    }
    if ((this.#countByUser.get(userId) ?? 0) < MAX_STREAMS_PER_USER) return
    refusedChannel.publish({ window: 'streams' })
    throw apiError('RATE_LIMIT_EXCEEDED', {
      message: `Too many streams: a user can have ${MAX_STREAMS_PER_USER}`,
      retryAfter: RETRY_AFTER_SECONDS,
    })
  }

  /**
   * Begins a stream.
   * @returns the body of the response
   * @throws ApiError 503 or 429
   */
  open(options: StreamOptions, reply: FastifyReply): EventStream['body'] {
    const { userId } = options.actor
    this.ensureRoom(userId)
    const stream = new EventStream(options, reply, (ended) => {
      this.#forget(ended)
      reply.log.info({ reason: ended.end }, 'event stream ended')
    })
    this.#all.add(stream)
    this.#countByUser.set(userId, (this.#countByUser.get(userId) ?? 0) + 1)
    this.#timer ??= setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref()
    // The client may have disconnected while the first statement ran: then the stream ends here.
    getLifetime(reply.raw).untilEnd(() => stream.close('client'))
    // With a cursor: a client that reads the collections from now on needs the position at which it began.
    stream.write(RETRY_LINE + this.#options.format.writeComment(stream.reached, options))
    this.#track(this.#catchUp(stream))
    return stream.body
  }

  /** Sends the events up to the last position of the feed, which is a smaller one after a restore of a backup. */
  advance(last: LastPosition): void {
    this.#last = last
    const { position, id } = this.#reached
    if (last.position === position && (last.id === undefined || last.id === id)) return
    this.#isBehind = true
    this.#readNew()
  }

  /** Ends all streams, so that their clients connect to another process. */
  closeAll(): void {
    this.#isClosing = true
    for (const stream of this.#all) stream.close('shutdown')
  }

  /** Ends all streams and waits for statements in progress. */
  async stop(): Promise<void> {
    this.closeAll()
    await Promise.all(this.#running)
  }

  #track(work: Promise<void>): void {
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  #forget(stream: EventStream): void {
    this.#all.delete(stream)
    this.#current.delete(stream)
    const { userId } = stream.options.actor
    const count = (this.#countByUser.get(userId) ?? 0) - 1
    if (count > 0) this.#countByUser.set(userId, count)
    else this.#countByUser.delete(userId)
    publishStreamEnded(stream.end ?? 'error')
    if (this.#all.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Sends the events before those that the other streams have, then lets the stream follow with them. */
  async #catchUp(stream: EventStream): Promise<void> {
    try {
      let { last } = stream.options
      while (stream.end === undefined) {
        const target = this.#current.size === 0 ? last : this.#reached
        // In the same turn, so that no event falls between.
        if (stream.reached.position >= target.position) return this.#follow(stream)
        const page = await this.#limitReads(() => this.#readEarlier(stream))
        if (!page) return
        for (const event of page.events) {
          await stream.waitForReader()
          this.#send(stream, event, new Map())
        }
        last = page.feed.last
        const next = page.hasMore ? page.events.at(-1) : last
        if (next) stream.reached = { position: next.position, id: next.id }
        // A later snapshot has an earlier end: the other streams follow events that the feed has lost.
        if (last.position < target.position) this.#expireCurrent()
        await stream.waitForLimit(page.bytes)
      }
    } catch (err) {
      if (err instanceof ApiError) return this.#expire(stream, err)
      this.#options.log.warn({ err }, 'earlier events could not be read for a stream')
      // The client connects again, and gets the error as a response if it lasts.
      stream.close('error')
    }
  }

  async #readEarlier(stream: EventStream) {
    // The stream may have ended while it waited for its turn.
    if (stream.end !== undefined) return undefined
    const { rules, actor, filters } = stream.options
    const { database, resources } = this.#options
    return readEventPage(database, {
      filters,
      reader: { resources, rules, actor },
      from: stream.reached,
      limit: BATCH_SIZE,
      maxBytes: MAX_BATCH_BYTES,
    })
  }

  #follow(stream: EventStream): void {
    if (this.#current.size === 0) this.#reached = stream.reached
    this.#current.add(stream)
    // What was announced while no stream followed.
    this.advance(this.#last)
  }

  #expire(stream: EventStream, error: ApiError): void {
    stream.write(this.#options.format.writeError(error, stream.options))
    stream.close('expired')
  }

  #expireCurrent(error: ApiError = apiError('EVENTS_EXPIRED')): void {
    for (const stream of this.#current) this.#expire(stream, error)
  }

  #readNew(): void {
    if (this.#isReading) return
    this.#isReading = true
    this.#track(
      this.#distributeNew()
        .then(() => {
          this.#hasFailed = false
        })
        .catch((err: unknown) => {
          // The next position or the next check tries again.
          if (!this.#hasFailed)
            this.#options.log.warn({ err }, 'new events could not be read for the streams')
          this.#hasFailed = true
        })
        .finally(() => {
          this.#isReading = false
        }),
    )
  }

  /** Reads on only after a full page, or if the feed has advanced since: never the same page again. */
  async #distributeNew(): Promise<void> {
    while (this.#isBehind && this.#current.size > 0 && !this.#isClosing) {
      const from = this.#reached
      this.#isBehind = false
      const page = await this.#readAfter(from)
      // Other streams follow than before.
      if (from !== this.#reached) this.#isBehind = true
      else if (page instanceof ApiError) this.#expireCurrent(page)
      else {
        for (const event of page.events) {
          const cache: BlockCache = new Map()
          for (const stream of this.#current) if (stream.selects(event)) this.#send(stream, event, cache)
        }
        const next = page.hasMore ? page.events.at(-1) : undefined
        this.#reached = next ? { position: next.position, id: next.id } : page.feed.last
        this.#isBehind ||= next !== undefined
      }
    }
  }

  /** Returns the error if the feed has lost the event. */
  async #readAfter(from: FeedPosition) {
    try {
      return await readEventPage(this.#options.database, {
        from,
        limit: BATCH_SIZE,
        maxBytes: MAX_BATCH_BYTES,
      })
    } catch (error) {
      if (error instanceof ApiError) return error
      this.#isBehind = true
      throw error
    }
  }

  #send(stream: EventStream, event: EventRow, cache: BlockCache): void {
    stream.write(this.#options.format.writeEvent(event, stream.options, cache))
    stream.reached = { position: event.position, id: event.id }
  }

  /** Ends streams whose credential has ended, and sends the comments. */
  #check(): void {
    this.#checks += 1
    const hasComment = this.#checks % CHECKS_PER_COMMENT === 0
    for (const stream of this.#all) {
      this.#track(this.#checkCredential(stream))
      if (!hasComment) continue
      // A stream that follows has all events up to the shared one.
      const isShared = this.#current.has(stream) && this.#reached.position > stream.reached.position
      const reached = isShared ? this.#reached : stream.reached
      stream.write(this.#options.format.writeComment(reached, stream.options))
    }
    if (this.#hasFailed) this.#readNew()
  }

  async #checkCredential(stream: EventStream): Promise<void> {
    const { actor, request } = stream.options
    try {
      if (!isUnchanged(actor, await this.#options.readActor(request))) stream.close('credential')
    } catch {
      // Without the database nothing is known, and no event is sent either. The next check tries again.
    }
  }
}
