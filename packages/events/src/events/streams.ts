/** The event streams of a process: begins them within the limits, checks their credentials, and ends them. */
import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import { getLifetime } from '@resource-api/api/requests'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { refusedChannel } from '@resource-api/http/internal'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { streamEndedChannel } from './channels.ts'
import { Distributor, type DistributorOptions } from './distributor.ts'
import type { LastPosition } from './feed.ts'
import { EventStream, type StreamOptions } from './stream.ts'

const MAX_STREAMS_PER_USER = 5
const RETRY_AFTER_SECONDS = 5
/** The first line of a stream: the milliseconds after which a client that was disconnected connects again. */
const RETRY_LINE = 'retry: 3000\n'
/** Interval of the credential checks. The results are cached for up to 4 s, and a revocation is effective within 5 s. */
const CHECK_INTERVAL_MS = 500
const COMMENT_INTERVAL_MS = 5_000

interface StreamsOptions extends DistributorOptions {
  maxStreams: number
  /** Returns the caller whose credential is in the request, if it is still valid. */
  readActor(request: FastifyRequest): MaybePromise<Actor | undefined>
  /** Called when a stream was opened. */
  onOpen(): void
}

/** Returns what a stream depends on: it ends when its credential has other rights. */
const getRights = (actor: Actor | undefined) => actor && [actor.userId, actor.role, actor.scopes]

export class EventStreams {
  readonly #options: StreamsOptions
  readonly #distributor: Distributor
  readonly #all = new Set<EventStream>()
  readonly #timers: readonly NodeJS.Timeout[]
  #isClosing = false

  constructor(options: StreamsOptions) {
    this.#options = options
    this.#distributor = new Distributor(options)
    this.#timers = [
      setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref(),
      setInterval(() => this.#writeComments(), COMMENT_INTERVAL_MS).unref(),
    ]
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
        contention: 'streams',
      })
    }
    const own = [...this.#all].filter(({ options }) => options.actor.userId === userId)
    if (own.length < MAX_STREAMS_PER_USER) return
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
    this.ensureRoom(options.actor.userId)
    const stream = new EventStream(options, reply, (ended) => {
      this.#forget(ended)
      reply.log.info({ reason: ended.end }, 'event stream ended')
    })
    this.#all.add(stream)
    this.#options.onOpen()
    // The client may have disconnected while the first statement ran: then the stream ends here.
    getLifetime(reply.raw).untilEnd(() => stream.close('client'))
    // With a cursor: a client that reads the collections from now on needs the position at which it began.
    stream.write(RETRY_LINE + this.#options.format.writeComment(stream.reached, options))
    this.#distributor.add(stream)
    return stream.body
  }

  /** Sends the events up to the last position of the feed, which is a smaller one after a restore of a backup. */
  advance(last: LastPosition): void {
    this.#distributor.advance(last)
  }

  /** Ends all streams, so that their clients connect to another process. */
  closeAll(): void {
    this.#isClosing = true
    for (const timer of this.#timers) clearInterval(timer)
    for (const stream of this.#all) stream.close('shutdown')
  }

  /** Ends all streams and waits for statements in progress. */
  async stop(): Promise<void> {
    this.closeAll()
    await this.#distributor.waitForReads()
  }

  #forget(stream: EventStream): void {
    this.#all.delete(stream)
    this.#distributor.remove(stream)
    streamEndedChannel.publish({ reason: stream.end })
  }

  /** A comment has a cursor, so that a client that reconnects skips what it need not read. */
  #writeComments(): void {
    for (const stream of this.#all) {
      const reached = this.#distributor.getReached(stream)
      stream.write(this.#options.format.writeComment(reached, stream.options))
    }
  }

  #check(): void {
    for (const stream of this.#all) void this.#checkCredential(stream)
    this.#distributor.retry()
  }

  /** Ends a stream whose credential has ended. */
  async #checkCredential(stream: EventStream): Promise<void> {
    const { actor, request } = stream.options
    try {
      const now = await this.#options.readActor(request)
      if (!isDeepStrictEqual(getRights(now), getRights(actor))) stream.close('credential')
    } catch {
      // Without the database nothing is known, and no event is sent either. The next check tries again.
    }
  }
}
