/** Reads the stream of events of a server (server-sent events), and connects again after a loss. */
import { setTimeout as wait } from 'node:timers/promises'
import { createParser } from 'eventsource-parser'

/** The server sends a comment every 5 s. If three are missing, the connection counts as lost. */
const SILENCE_MS = 15_000
/** The pause before the next connection, until the server has sent a `retry` field. */
const DEFAULT_RETRY_MS = 1_000
const MAX_PAUSE_MS = 30_000
/** The most characters of a line or an event that are kept in memory until its end has arrived. */
const MAX_LENGTH = 4 * 1024 * 1024

interface StreamOptions {
  url: URL
  headers: Readonly<Record<string, string>>
  /** The position to start after; by default now. */
  cursor: string | undefined
  /** Ends the stream, without an error. */
  signal: AbortSignal
  /** Is called before each wait for another attempt to connect. */
  onLoss: (reason: string, delayMs: number) => void
}

/** A block of the stream: an event, the current position, or the error that ends it. */
interface Message {
  cursor: string | undefined
  isError: boolean
  /** The event as JSON; empty if there is none. */
  data: string
}

/** The connection was lost, or could not be opened; another attempt may succeed. */
class LostConnection extends Error {
  readonly retryAfterMs: number

  constructor(message: string, retryAfterMs = 0) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }

  /** Returns an error with the reason that `fetch` has hidden in the cause. */
  static from(error: unknown): LostConnection {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    if (!(cause instanceof Error)) return new LostConnection(String(cause))
    // An error for several addresses has a code and no message.
    const code = 'code' in cause ? String(cause.code) : cause.name
    return new LostConnection(cause.message === '' ? code : cause.message)
  }
}

/**
 * Yields the events and positions of the stream.
 * @throws Error with the message of the server if it refuses the stream, or ends it with an error
 */
export async function* readEventStream({
  cursor: start,
  signal,
  onLoss,
  ...target
}: StreamOptions): AsyncGenerator<Message, void, undefined> {
  let cursor = start
  let failures = 0
  let retryMs = DEFAULT_RETRY_MS
  const onRetry = (ms: number) => {
    retryMs = ms
  }
  while (!signal.aborted) {
    try {
      for await (const message of readConnection({ ...target, cursor, signal, onRetry })) {
        if (message.isError)
          throw new Error(readErrorMessage(message.data) ?? 'The server has ended the stream')
        failures = 0
        cursor = message.cursor ?? cursor
        yield message
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof LostConnection)) throw error
      // The random part makes the clients of a restarted server return one after the other.
      const pauseMs = Math.min(MAX_PAUSE_MS, retryMs * 2 ** failures) * (1 + Math.random() / 2)
      const delayMs = Math.max(error.retryAfterMs, pauseMs)
      failures += 1
      onLoss(error.message, delayMs)
      // An abort ends the wait, and then the loop.
      await wait(delayMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

interface ConnectionOptions extends Omit<StreamOptions, 'onLoss'> {
  onRetry: (ms: number) => void
}

/** Opens one connection and yields its messages. @throws LostConnection when it ends */
async function* readConnection(options: ConnectionOptions): AsyncGenerator<Message, never, undefined> {
  const silence = new AbortController()
  const signal = AbortSignal.any([options.signal, silence.signal])
  /** Waits for the server, at most for the time in which it sends something. */
  const receive = async <T>(work: Promise<T>): Promise<T> => {
    const reason = new LostConnection(`nothing was received for ${SILENCE_MS / 1000} s`)
    const timer = setTimeout(() => silence.abort(reason), SILENCE_MS)
    try {
      return await work
    } catch (error) {
      throw silence.signal.aborted ? reason : LostConnection.from(error)
    } finally {
      clearTimeout(timer)
    }
  }
  const response = await receive(connect(options, signal))
  const body = await readBody(response, receive)
  const messages: Message[] = []
  let isTooLong = false
  const parser = createParser({
    maxBufferSize: MAX_LENGTH,
    onEvent: ({ id, event, data }) =>
      messages.push({ cursor: id || undefined, isError: event === 'error', data: data.trim() }),
    onRetry: options.onRetry,
    // The parser drops a block without data, and with it the id that comes with a comment. An empty line of data keeps it.
    onComment: () => parser.feed('data\n'),
    onError: ({ type }) => {
      isTooLong ||= type === 'max-buffer-size-exceeded'
    },
  })
  const reader = body.getReader()
  const decoder = new TextDecoder()
  try {
    for (;;) {
      const { done, value } = await receive(reader.read())
      if (done) throw new LostConnection('the server has closed the connection')
      parser.feed(decoder.decode(value, { stream: true }))
      if (isTooLong) throw new Error(`The server has sent a line of more than ${MAX_LENGTH} characters`)
      yield* messages.splice(0)
    }
  } finally {
    // The connection may be lost already.
    await reader.cancel().catch(() => undefined)
  }
}

const connect = ({ url, headers, cursor }: ConnectionOptions, signal: AbortSignal) =>
  // A redirect would send the API key to another server.
  fetch(url, {
    headers: {
      ...headers,
      Accept: 'text/event-stream',
      ...(cursor !== undefined && { 'Last-Event-ID': cursor }),
    },
    redirect: 'manual',
    signal,
  })

/** Returns the body of a stream. @throws LostConnection or Error if the response is not one */
async function readBody(
  response: Response,
  receive: <T>(work: Promise<T>) => Promise<T>,
): Promise<ReadableStream<Uint8Array>> {
  const { status, headers, body } = response
  const isStream = headers.get('Content-Type')?.startsWith('text/event-stream') === true
  if (response.ok && isStream && body !== null) return body
  const message = readErrorMessage(await receive(response.text()))
  if (status === 429 || status >= 500) {
    // A date instead of seconds counts as absent.
    const retryAfterSeconds = Number(headers.get('Retry-After') ?? 0)
    throw new LostConnection(
      message ?? `the server answers with status ${status}`,
      (retryAfterSeconds || 0) * 1000,
    )
  }
  throw new Error(message ?? `The server answers with status ${status} and no stream of events: check --url`)
}

/** Returns the message of an error of the API; undefined if the response is not one. */
function readErrorMessage(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text).error
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
