/** Reads server-sent events (WHATWG HTML, section 9.2) from the body of a response. */
import { createParser } from 'eventsource-parser'
import { Deadline } from './deadline.ts'
import { createForeignResponseError, NetworkError } from './errors.ts'

/** The most characters of a line or an event that are kept in memory until its end has arrived. */
const MAX_LENGTH = 4 * 1024 * 1024

/** A block of the stream. */
export interface Message {
  /** The last event id; undefined if the block has none. */
  id: string | undefined
  /** Its type; undefined if the block has only a comment. */
  type: string | undefined
  /** Empty if the block has only a comment. */
  data: string
}

interface ReadOptions {
  signal: AbortSignal
  /** The connection counts as lost if nothing arrives for this time. */
  silenceMs: number
  /** Is called with the pause before the next connection that the server asks for. */
  onRetry: (ms: number) => void
}

/**
 * Yields the blocks of a stream. Reads on only when they have been used, and closes the connection when it is left.
 * @throws NetworkError if the connection is lost, ApiError if a line is too long, or the reason of the signal
 */
export async function* readMessages(
  response: Response,
  { signal, silenceMs, onRetry }: ReadOptions,
): AsyncGenerator<Message, void, undefined> {
  if (response.body === null) return
  const messages: Message[] = []
  let isTooLong = false
  const parser = createParser({
    maxBufferSize: MAX_LENGTH,
    onEvent: ({ id, event: type, data }) => messages.push({ id: id || undefined, type, data: data.trim() }),
    onRetry,
    // The parser drops a block without data, and with it the id that comes with a comment. An empty line of data keeps it.
    onComment: () => parser.feed('data\n'),
    onError: ({ type }) => {
      isTooLong ||= type === 'max-buffer-size-exceeded'
    },
  })
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  try {
    for (;;) {
      const read = reader.read().catch((cause) => {
        throw new NetworkError('The connection of the stream was lost', { cause })
      })
      const silence = new Deadline(silenceMs, signal)
      const { done, value } = await silence.race(read).finally(() => silence.clear())
      if (done) return
      parser.feed(decoder.decode(value, { stream: true }))
      if (isTooLong) {
        const message = `An event or a line of the stream is longer than ${MAX_LENGTH} characters`
        throw createForeignResponseError(response, 'INVALID_RESPONSE', message)
      }
      yield* messages.splice(0)
    }
  } finally {
    // The connection may be lost already.
    await reader.cancel().catch(() => undefined)
  }
}
