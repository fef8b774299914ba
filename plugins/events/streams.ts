/** The event streams of a process: reads each new event once, and sends it to the streams that select it. */
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import type { Database } from '../../drizzle/client/types.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'
import { ApiError, apiError } from '../errors/index.ts'
import { refusedChannel } from '../rate-limit/channels.ts'
import { publishStreamEnded } from './channels.ts'
import { ensureAvailable, readEventPage } from './page.ts'
import { buildReadableCondition, type RecordedResource } from './readable.ts'
import type { EventRow } from './represent-event.ts'
import { EventStream, type StreamOptions } from './stream.ts'
import type { BlockCache, StreamFormat } from './stream-format.ts'

const MAX_STREAMS_PER_USER = 5
const RETRY_AFTER_SECONDS = 5
/** Events, and bytes of their resources, that one statement reads. */
const BATCH_SIZE = 100
const MAX_BATCH_BYTES = 1_048_576
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
  /** Returns the caller whose credential is in the headers, if it is still valid. */
  readActor(headers: IncomingHttpHeaders): MaybePromise<Actor | undefined>
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
  /** The position up to which new events were sent. */
  #position = 0
  /** The last known position of the feed. */
  #lastPosition = 0
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
    if (refusedChannel.hasSubscribers) refusedChannel.publish({ window: 'streams' })
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
    // With a cursor: a client that reads the collections from now on needs the position at which it began.
    stream.write(RETRY_LINE + this.#options.format.writeComment(stream.position, options))
    this.#track(this.#catchUp(stream))
    return stream.body
  }

  /** Sends the events up to a position. */
  advance(lastPosition: number): void {
    this.#lastPosition = Math.max(this.#lastPosition, lastPosition)
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

  /** Sends the events before the shared position, then lets the stream follow it. */
  async #catchUp(stream: EventStream): Promise<void> {
    const { database, resources } = this.#options
    const { rules, actor, filters } = stream.options
    try {
      while (stream.end === undefined && stream.position < this.#position) {
        const { events, hasMore, feed } = await readEventPage(database, {
          filters,
          buildAccess: (addParam) => buildReadableCondition(resources, rules, () => addParam(actor.userId)),
          from: stream.position,
          limit: BATCH_SIZE,
          maxBytes: MAX_BATCH_BYTES,
        })
        ensureAvailable(stream.position, feed)
        for (const event of events) {
          await stream.waitForReader()
          this.#send(stream, event, new Map())
        }
        stream.position = hasMore ? (events.at(-1)?.position ?? stream.position) : feed.last_position
      }
      // In the same turn as the comparison above, so that no event falls between.
      if (stream.end === undefined) this.#current.add(stream)
    } catch (err) {
      const isExpired = err instanceof ApiError
      if (!isExpired) this.#options.log.warn({ err }, 'earlier events could not be read for a stream')
      // The client connects again, and gets the error as a response if it lasts.
      stream.close(isExpired ? 'expired' : 'error')
    }
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

  async #distributeNew(): Promise<void> {
    while (this.#position < this.#lastPosition && !this.#isClosing) {
      if (this.#current.size === 0) {
        this.#position = this.#lastPosition
        return
      }
      const { events, hasMore, feed } = await readEventPage(this.#options.database, {
        from: this.#position,
        limit: BATCH_SIZE,
        maxBytes: MAX_BATCH_BYTES,
      })
      for (const event of events) {
        const cache: BlockCache = new Map()
        for (const stream of this.#current) if (stream.selects(event)) this.#send(stream, event, cache)
      }
      this.#position = hasMore ? (events.at(-1)?.position ?? this.#position) : feed.last_position
    }
  }

  #send(stream: EventStream, event: EventRow, cache: BlockCache): void {
    stream.write(this.#options.format.writeEvent(event, stream.options, cache))
    stream.position = event.position
  }

  /** Ends streams whose credential has ended, and sends the comments. */
  #check(): void {
    this.#checks += 1
    const hasComment = this.#checks % CHECKS_PER_COMMENT === 0
    for (const stream of this.#all) {
      this.#track(this.#checkCredential(stream))
      if (!hasComment) continue
      // A stream that follows the shared position has all events up to it.
      const position = this.#current.has(stream) ? Math.max(stream.position, this.#position) : stream.position
      stream.write(this.#options.format.writeComment(position, stream.options))
    }
    if (this.#hasFailed) this.#readNew()
  }

  async #checkCredential(stream: EventStream): Promise<void> {
    const { actor, headers } = stream.options
    try {
      if (!isUnchanged(actor, await this.#options.readActor(headers))) stream.close('credential')
    } catch {
      // Without the database nothing is known, and no event is sent either. The next check tries again.
    }
  }
}
