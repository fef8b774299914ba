/** One stream of server-sent events (WHATWG HTML, section 9.2): its position, and what its client has not read yet. */

import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Actor } from '../access/index.ts'
import type { ListFilters } from '../collection/sql/list-conditions.ts'
import type { StreamEnd } from './channels.ts'
import { matches } from './filter.ts'
import { canRead, type ReadableRules } from './readable.ts'
import type { EventRow } from './represent-event.ts'

/** Bytes that a client may leave unread. */
const MAX_UNREAD_BYTES = 1_048_576
/** A stream that reads earlier events waits while more bytes than this are unread. */
const PAUSE_BYTES = 262_144

export interface StreamOptions {
  actor: Actor
  /** With the credential, which is checked regularly. */
  headers: IncomingHttpHeaders
  filters: ListFilters
  rules: ReadableRules
  version: number
  fields: readonly string[] | undefined
  /** What the cursors of the stream are bound to. */
  identity: string
  /** The stream has the events after this position. */
  position: number
}

export class EventStream {
  readonly options: StreamOptions
  /** The body of the response. */
  readonly body = new Readable({ read: () => undefined })
  /** The position up to which all events of the stream were sent. */
  position: number
  /** Undefined while the stream runs. */
  end: StreamEnd | undefined
  readonly #raw: FastifyReply['raw']
  readonly #onEnd: (stream: EventStream) => void

  /** @param onEnd called once */
  constructor(options: StreamOptions, reply: FastifyReply, onEnd: (stream: EventStream) => void) {
    this.options = options
    this.position = options.position
    this.#raw = reply.raw
    this.#onEnd = onEnd
    this.#raw.once('close', () => this.#settle('client'))
  }

  /** Returns whether the stream has an event that the filters and the access rules select. */
  selects(event: EventRow): boolean {
    const { rules, filters, actor } = this.options
    return event.position > this.position && canRead(rules, event, actor) && matches(filters, event)
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

  /** Waits while the client has much to read. */
  async waitForReader(): Promise<void> {
    while (this.end === undefined && this.#getUnreadBytes() > PAUSE_BYTES) {
      await new Promise<void>((resolve) => {
        const settle = () => {
          this.#raw.off('drain', settle).off('close', settle)
          resolve()
        }
        this.#raw.on('drain', settle).on('close', settle)
      })
    }
  }

  #getUnreadBytes(): number {
    return this.body.readableLength + this.#raw.writableLength
  }

  #settle(reason: StreamEnd): void {
    if (this.end !== undefined) return
    this.end = reason
    this.#onEnd(this)
  }
}
