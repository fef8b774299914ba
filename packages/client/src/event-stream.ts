/** Follows the events of the API with server-sent events over `fetch`, and connects again after a loss. */
import { Deadline } from './deadline.ts'
import {
  type ApiError,
  createForeignResponseError,
  NetworkError,
  RateLimitError,
  ServerError,
  toApiError,
} from './errors.ts'
import type { ResourceEvent } from './event.ts'
import type { Message } from './server-sent-events.ts'
import type { Transport } from './transport.ts'

/** The server sends a comment every 5 s. If three are missing, the connection counts as lost. */
const SILENCE_MS = 15_000
/** The pause before the next connection, until the server has sent a `retry` field. */
const DEFAULT_RETRY_MS = 1_000
const MAX_PAUSE_MS = 30_000

/** Which events to follow, and from where. A filter takes one value or several. */
export interface EventQuery {
  /** Types of events: `users.created`, or `users.*` for all types of a collection. */
  type?: string | readonly string[] | undefined
  /** Collections, such as `users`. */
  resource_type?: string | readonly string[] | undefined
  resource_id?: string | readonly string[] | undefined
  /** The users who made the changes. */
  actor_id?: string | readonly string[] | undefined
  /** The cursor of an item of an earlier stream: the stream starts after it. By default it starts now. */
  cursor?: string | undefined
}

/** Options of a stream. */
export interface StreamOptions {
  /** The path of the feed, if the service gives it another name. Default: `/api/v1/events`. */
  path?: string | undefined
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined
  /** How long the stream tries to connect after it was lost before it fails; by default without limit. */
  deadlineMs?: number | undefined
  /** Is called before each wait for another attempt to connect, for example to log the error. */
  onReconnect?: ((error: ApiError, delayMs: number) => void) | undefined
}

/** An event of a stream. */
export interface StreamedEvent {
  /** The place of the event in the feed: a stream with this cursor starts after it. */
  cursor: string
  event: ResourceEvent
}

/** The place of a comment of the stream. */
interface Place {
  cursor: string | undefined
}

/** A stream of events, which connects when it is iterated. */
export class EventStream implements AsyncIterable<StreamedEvent> {
  readonly #transport: Transport
  readonly #filters: Omit<EventQuery, 'cursor'>
  readonly #options: StreamOptions
  #cursor: string | undefined
  #retryMs = DEFAULT_RETRY_MS

  constructor(transport: Transport, { cursor, ...filters }: EventQuery, options: StreamOptions) {
    this.#transport = transport
    this.#filters = filters
    this.#options = options
    this.#cursor = cursor
  }

  /**
   * The place in the feed up to which all events were processed: it moves past an event when the loop asks for the next
   * one, and on while no event matches the filters. Undefined before the first one.
   */
  get cursor(): string | undefined {
    return this.#cursor
  }

  /**
   * Yields the events. Leaving the loop closes the connection.
   * @throws ApiError if the server refuses or ends the stream, for example with 410 if events after the cursor were removed
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<StreamedEvent, void, undefined> {
    const { signal = new AbortController().signal, deadlineMs = Number.POSITIVE_INFINITY } = this.#options
    let failures = 0
    let endOfAttempts = Number.POSITIVE_INFINITY
    while (!signal.aborted) {
      try {
        for await (const item of this.#readConnection(signal)) {
          failures = 0
          if (signal.aborted) return
          if ('event' in item) yield item
          this.#cursor = item.cursor ?? this.#cursor
        }
      } catch (error) {
        if (signal.aborted) return
        if (!isTemporary(error)) throw error
        if (failures === 0) endOfAttempts = performance.now() + deadlineMs
        const delayMs = Math.max(error.retryAfterMs ?? 0, this.#getPauseMs(failures))
        if (performance.now() + delayMs >= endOfAttempts) throw error
        failures += 1
        this.#options.onReconnect?.(error, delayMs)
        const pause = new Deadline(Number.POSITIVE_INFINITY, signal)
        // An abort ends the pause, and then the loop.
        await pause.wait(delayMs).catch(() => undefined)
        pause.clear()
      }
    }
  }

  /** Returns a growing pause, with a random part: the clients of a restarted server return one after the other. */
  #getPauseMs(failures: number): number {
    return Math.min(MAX_PAUSE_MS, this.#retryMs * 2 ** failures) * (1 + Math.random() / 2)
  }

  /** Connects, and yields the events and places of the connection. @throws NetworkError when the connection ends */
  async *#readConnection(signal: AbortSignal): AsyncGenerator<StreamedEvent | Place, never, undefined> {
    // Bundlers that split code load the parser only with the first stream; it is a sixth of the package.
    const { readMessages } = await import('./server-sent-events.ts')
    const response = await this.#connect(signal)
    const onRetry = (ms: number) => {
      this.#retryMs = ms
    }
    for await (const message of readMessages(response, { signal, silenceMs: SILENCE_MS, onRetry })) {
      yield message.data === '' ? { cursor: message.id } : readEvent(response, message)
    }
    throw new NetworkError('The server ended the stream')
  }

  #connect(signal: AbortSignal): Promise<Response> {
    return this.#transport.openStream({
      path: this.#options.path ?? '/api/v1/events',
      query: this.#filters,
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': this.#cursor },
      signal,
      deadlineMs: SILENCE_MS,
      // The stream connects again with pauses of its own.
      maxRetries: 0,
    })
  }
}

/** Returns whether another attempt may succeed. */
const isTemporary = (error: unknown): error is ApiError =>
  error instanceof NetworkError || error instanceof RateLimitError || error instanceof ServerError

function parseJson(text: string) {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** The status that the server answers with if it refuses the cursor, instead of ending a stream with an error. */
const EXPIRED = 410

/** Parses an event. @throws ApiError if it is the error that ends a stream, or is not from the API */
function readEvent(response: Response, { id: cursor, type, data }: Message): StreamedEvent {
  const parsed = parseJson(data)
  if (type === 'error') throw toApiError({ status: EXPIRED, headers: response.headers }, parsed?.value)
  if (cursor && parsed) return { cursor, event: parsed.value }
  const message = 'The stream has an event without an id, or with data that is not JSON: check baseUrl'
  throw createForeignResponseError(response, 'INVALID_RESPONSE', message)
}
