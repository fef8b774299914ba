/** A client of event streams, which parses server-sent events as browsers do (WHATWG HTML, section 9.2). */

import type { Json } from './app.ts'
import type { Owner } from './database.ts'

interface StreamedEvent {
  id: string
  type: string
  data: Json
  /** When it arrived: milliseconds since the epoch. */
  at: number
}

interface OpenOptions {
  headers: Record<string, string>
  /** The path with the query string. */
  path?: string
  cursor?: string | undefined
}

export interface TestStream {
  status: number
  headers: Headers
  /** Waits until there are as many events. Rejects if the stream ends before. */
  waitForEvents(count: number): Promise<readonly StreamedEvent[]>
  /** Waits for the next comment, and returns the cursor that it has. */
  waitForComment(): Promise<string>
  /** Waits until the server has ended the stream. Rejects if the connection was broken. */
  waitForEnd(): Promise<void>
  /** The events so far. */
  events: readonly StreamedEvent[]
  /** The last cursor. */
  getCursor(): string
  close(): void
  /** The body of a response that is no stream. */
  body: Json
}

/** Opens a stream, which is closed after the test. */
export async function openStream(t: Owner, base: string, options: OpenOptions): Promise<TestStream> {
  const { headers, path = '/events', cursor } = options
  const aborter = new AbortController()
  t.teardown(() => aborter.abort())
  const reply = await fetch(`${base}${path}`, {
    headers: {
      accept: 'text/event-stream',
      ...headers,
      ...(cursor !== undefined && { 'last-event-id': cursor }),
    },
    signal: aborter.signal,
  })
  const events: StreamedEvent[] = []
  let lastId = ''
  let comments = 0
  let failure: unknown
  let isOver = false
  let wakeUp: () => void = () => undefined

  const readBlock = (block: string) => {
    const fields = new Map(
      block
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
    )
    lastId = fields.get('id') ?? lastId
    const data = fields.get('data')
    if (data !== undefined) {
      events.push({ id: lastId, type: fields.get('event') ?? '', data: JSON.parse(data), at: Date.now() })
    } else if (fields.has('')) comments += 1
  }
  const readBody = async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of reply.body ?? []) {
      const blocks = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) readBlock(block)
      wakeUp()
    }
  }
  const isStream = reply.headers.get('content-type')?.startsWith('text/event-stream') === true
  const body = isStream ? undefined : await reply.json()
  if (isStream) {
    void readBody()
      .catch((error: unknown) => {
        failure = error
      })
      .finally(() => {
        isOver = true
        wakeUp()
      })
  }

  const waitFor = async (condition: () => boolean) => {
    while (!condition()) {
      if (isOver) throw new Error('The stream has ended', { cause: failure })
      await new Promise<void>((resolve) => {
        wakeUp = resolve
      })
    }
  }
  return {
    status: reply.status,
    headers: reply.headers,
    events,
    body,
    getCursor: () => lastId,
    async waitForEvents(count) {
      await waitFor(() => events.length >= count)
      return events
    },
    async waitForComment() {
      const before = comments
      await waitFor(() => comments > before)
      return lastId
    },
    async waitForEnd() {
      await waitFor(() => isOver)
      if (failure) throw failure
    },
    close: () => aborter.abort(),
  }
}

/** Reads a number of events of a stream, then closes it. */
export async function readStream(
  t: Owner,
  base: string,
  options: OpenOptions,
  count: number,
): Promise<TestStream> {
  const stream = await openStream(t, base, options)
  await stream.waitForEvents(count)
  stream.close()
  return stream
}
