/** Streams of server-sent events (WHATWG HTML, section 9.2): how events are written, and what a client has not read yet. */
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { Actor } from '@resource-api/api/actor'
import { type ApiError, type ErrorEnvelope, writeError } from '@resource-api/api/errors'
import type { ListFilters } from '@resource-api/resources/internal'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { EventDecisions, EventReader } from './decisions.ts'
import type { FeedPosition } from './feed-state.ts'
import { matches } from './filter.ts'
import type { EventMapper, EventRow } from './represent-event.ts'

/** Bytes that a client may leave unread. */
const MAX_UNREAD_BYTES = 1_048_576
/** A stream that reads earlier events waits while more bytes than this are unread. */
export const PAUSE_BYTES = 131_072

/** Why a stream ended. */
type StreamEnd = 'client' | 'credential' | 'shutdown' | 'unread' | 'expired' | 'error'

export interface StreamOptions extends EventReader {
  /** With the credential, which is checked regularly. */
  request: FastifyRequest
  filters: ListFilters
  version: number
  fields: readonly string[] | undefined
  /** What the cursors of the stream are bound to. */
  identity: string
  /** The form of errors, and the id of the request for them. */
  envelope: ErrorEnvelope
  requestId: string
  /** The stream has the events after this one. */
  from: FeedPosition
  /** The last position of the feed when the stream began. */
  last: FeedPosition
  /** Counts the page of earlier events that was read. Returns 0, or the milliseconds until the limit permits it. */
  countPage(bytes: number): Promise<number>
}

export class EventStream {
  readonly options: StreamOptions
  /** The body of the response. */
  readonly body = new Readable({ read: () => undefined })
  /** The event up to which all events of the stream were sent. */
  reached: FeedPosition
  /** Undefined while the stream runs. */
  end: StreamEnd | undefined
  readonly #raw: FastifyReply['raw']
  readonly #ending = new AbortController()
  readonly #onEnd: (stream: EventStream) => void

  /** @param onEnd called once */
  constructor(options: StreamOptions, reply: FastifyReply, onEnd: (stream: EventStream) => void) {
    this.options = options
    this.reached = options.from
    this.#raw = reply.raw
    this.#onEnd = onEnd
  }

  /** Returns whether the stream has an event that the filters and the access rules select. */
  selects(event: EventRow, decisions: EventDecisions): boolean {
    const { options } = this
    const isNext = event.position > this.reached.position
    return isNext && decisions.canRead(options, event) && matches(options.filters, event)
  }

  /** Sends text or its bytes. Closes the connection if the client has left too much unread. */
  write(chunk: string | Buffer): void {
    if (this.end !== undefined) return
    if (this.#getUnreadBytes() > MAX_UNREAD_BYTES) {
      this.#settle('unread')
      // An orderly end would wait behind the unread bytes.
      this.#raw.destroy()
      return
    }
    this.body.push(chunk)
  }

  /** Ends the response. What was written before is still sent. */
  close(reason: StreamEnd): void {
    if (this.end !== undefined) return
    this.#settle(reason)
    this.body.push(null)
  }

  /** Waits until the rate limit permits a page that was read. */
  async waitForLimit(bytes: number): Promise<void> {
    while (this.end === undefined) {
      const milliseconds = await this.options.countPage(bytes)
      if (milliseconds === 0) return
      await wait(milliseconds, undefined, { signal: this.#ending.signal }).catch(() => undefined)
    }
  }

  /** Waits while the client has much to read. */
  async waitForReader(): Promise<void> {
    while (this.end === undefined && this.#getUnreadBytes() > PAUSE_BYTES) {
      // Not until 'close': a pipelined response behind another one emits none when the connection ends.
      await once(this.#raw, 'drain', { signal: this.#ending.signal }).catch(() => undefined)
    }
  }

  #getUnreadBytes(): number {
    return this.body.readableLength + this.#raw.writableLength
  }

  #settle(reason: StreamEnd): void {
    if (this.end !== undefined) return
    this.end = reason
    this.#ending.abort()
    this.#onEnd(this)
  }
}

/** The blocks of one event that were written already. */
export type BlockCache = Map<string, string | Buffer>

export type StreamFormat = ReturnType<typeof createStreamFormat>

interface FormatOptions {
  mapper: EventMapper
  writeCursor(position: FeedPosition, identity: string): string
  /** Returns a text that differs between readers who see a resource differently. */
  getViewTag(resourceType: string, actor: Actor): string
}

/** Creates the functions that write blocks. An event is serialized once for all streams that show it alike. */
export function createStreamFormat({ mapper, writeCursor, getViewTag }: FormatOptions) {
  const remember = <T extends string | Buffer>(cache: BlockCache, key: string, write: () => T) => {
    const known = cache.get(key)
    if (known !== undefined) return known
    const written = write()
    cache.set(key, written)
    return written
  }

  return {
    /** Returns the block of an event: its cursor, its type and its JSON in one line. */
    writeEvent(
      event: EventRow,
      options: StreamOptions,
      { cache, decisions }: { cache: BlockCache; decisions: EventDecisions },
    ): string | Buffer {
      const { version, fields, identity, actor } = options
      const shown = decisions.hideUnreadable(options, event)
      const reader = getViewTag(event.resource_type, actor)
      const shape = `${version}|${fields?.join() ?? '*'}|${reader}|${shown === event}`
      return remember(cache, `${shape}|${identity}`, () => {
        const json = remember(cache, shape, () =>
          JSON.stringify(mapper.toData(shown, actor, version, fields)),
        )
        return Buffer.from(`id: ${writeCursor(event, identity)}\nevent: ${event.type}\ndata: ${json}\n\n`)
      })
    },

    /** Returns a comment with the cursor of a position, so that a client that reconnects skips what it need not read. */
    writeComment: (position: FeedPosition, { identity }: StreamOptions): string =>
      `:\nid: ${writeCursor(position, identity)}\n\n`,

    /** Returns the block that says why a stream ends. It has no cursor: that of the client is kept. */
    writeError: (error: ApiError, { envelope, requestId }: StreamOptions): string =>
      `event: error\ndata: ${writeError(envelope, error, requestId)}\n\n`,
  }
}
