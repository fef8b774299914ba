/** The client package follows the stream of events, and connects again without losing or repeating an event. */
import t, { type Test } from 'tap'
import { startFakeEventServer } from '../../testing/helpers/fake-event-server.ts'
import { stopClock, waitUntil } from '../../testing/helpers/time.ts'
import { createClient, type StreamOptions, type Tokens } from '../src/index.ts'

const API_KEY = 'secret'

type EventStream = ReturnType<ReturnType<typeof createClient>['events']['stream']>

async function start(t: Test) {
  const server = await startFakeEventServer(t)
  const { events } = createClient({ baseUrl: server.url, apiKey: API_KEY })
  /** Waits for the next event of a stream that is open; an error is a value. */
  const open = async (...[query = {}, options]: Parameters<typeof events.stream>) => {
    const stream = events.stream(query, options)
    const items = stream[Symbol.asyncIterator]()
    const before = server.requests.length
    const next = items.next().catch((error: unknown) => error)
    await waitUntil(() => server.requests.length > before && server.streams.size > 0)
    return { stream, items, next }
  }
  const waitForEnd = () => waitUntil(() => server.streams.size === 0)
  return { server, events, open, waitForEnd }
}

/** Reads the cursors of a number of events. `onCursor` is called between two of them. */
async function readCursors(
  stream: EventStream,
  count: number,
  onCursor?: (cursors: string[]) => Promise<void>,
) {
  const cursors: string[] = []
  for await (const { cursor } of stream) {
    cursors.push(cursor)
    if (cursors.length === count) break
    await onCursor?.(cursors)
  }
  return cursors
}

t.test('a stream yields each event with its cursor, from now on', async (t) => {
  const { server, events, open } = await start(t)
  server.add()
  events.stream()
  t.equal(server.requests.length, 0, 'without iteration there is no request')
  const { next, items } = await open()
  const event = server.add({ type: 'users.updated', previous: { status: 'active' } })
  t.strictSame(await next, { done: false, value: { cursor: 'cursor-2', event } })
  const { headers = {} } = server.requests[0] ?? {}
  t.match(headers, { accept: 'text/event-stream', 'x-api-key': API_KEY })
  t.equal(headers['last-event-id'], undefined)
  await items.return()
})

t.test('filters and a cursor select the events', async (t) => {
  const { server, events } = await start(t)
  const types = ['users.created', 'sessions.created', 'api-keys.updated', 'users.deleted'] as const
  for (const type of types) server.add({ type })
  const query = { type: ['users.*', 'api-keys.updated'], resource_type: 'users', actor_id: 'user-1' }
  const stream = events.stream({ ...query, cursor: 'cursor-1' })
  t.same(await readCursors(stream, 2), ['cursor-3', 'cursor-4'])
  const url = decodeURIComponent(server.requests[0]?.url ?? '')
  t.equal(url, '/api/v1/events?type=users.*,api-keys.updated&resource_type=users&actor_id=user-1')
})

t.test('leaving the loop closes the connection, and an abort ends it without an error', async (t) => {
  const { server, events, open, waitForEnd } = await start(t)
  server.add()
  const read = async (failure?: Error) => {
    for await (const _ of events.stream({ cursor: 'cursor-0' })) {
      if (failure) throw failure
      break
    }
  }
  await read()
  await waitForEnd()
  await t.rejects(read(new Error('of the consumer')), { message: 'of the consumer' })
  await waitForEnd()
  t.equal(server.requests.length, 2, 'and an error of the consumer is not a lost connection')

  const reading = new AbortController()
  const { next } = await open({}, { signal: reading.signal })
  reading.abort()
  t.match(await next, { done: true }, 'while it waits for an event')
  await waitForEnd()
  const waiting = new AbortController()
  server.refusals.push({ status: 503, headers: { 'Retry-After': '3600' } })
  const options = { signal: waiting.signal, onReconnect: () => waiting.abort() }
  for (const when of ['while it waits for the next attempt', 'before it begins'])
    t.match(await events.stream({}, options)[Symbol.asyncIterator]().next(), { done: true }, when)
  t.equal(server.requests.length, 4)
})

t.test('after a lost connection the stream goes on after the last event', async (t) => {
  const { server, events, waitForEnd } = await start(t)
  const losses: string[] = []
  const onReconnect: StreamOptions['onReconnect'] = ({ name, message }) => losses.push(`${name}: ${message}`)
  server.add()
  const stream = events.stream({ cursor: 'cursor-0' }, { onReconnect })
  const cursors = await readCursors(stream, 4, async ({ length }) => {
    if (length === 1) server.cut()
    else server.end()
    await waitForEnd()
    server.add()
  })
  t.same(cursors, ['cursor-1', 'cursor-2', 'cursor-3', 'cursor-4'])
  const ended = 'NetworkError: The server ended the stream'
  t.same(losses, ['NetworkError: The connection of the stream was lost', ended, ended])
  t.same(
    server.requests.map(({ headers }) => headers['last-event-id']),
    ['cursor-0', 'cursor-1', 'cursor-2', 'cursor-3'],
  )
})

t.test('a comment moves the position from which the stream goes on', async (t) => {
  const { server, open } = await start(t)
  const { stream, next } = await open({ type: 'sessions.created', cursor: 'cursor-0' })
  for (let i = 0; i < 3; i++) server.add()
  server.sendPosition()
  await waitUntil(() => stream.cursor === 'cursor-3')
  server.cut()
  await waitUntil(() => server.requests.length === 2 && server.streams.size === 1)
  t.equal(server.requests[1]?.headers['last-event-id'], 'cursor-3')
  // The id may also stand before the comment.
  server.sendText('id: cursor-4\r\n:\r\n\r\n')
  await waitUntil(() => stream.cursor === 'cursor-4')
  server.add({ type: 'sessions.created' })
  t.match(await next, { value: { event: { type: 'sessions.created' } } })
})

t.test('the cursor of the stream moves past an event when it was processed', async (t) => {
  const { server, events } = await start(t)
  for (let i = 0; i < 3; i++) server.add()
  const stream = events.stream({ cursor: 'cursor-0' })
  const read = async () => {
    const steps: string[] = []
    for await (const { cursor } of stream) {
      steps.push(`${cursor} after ${stream.cursor}`)
      if (steps.length === 2) break
    }
    return steps
  }
  t.same(await read(), ['cursor-1 after cursor-0', 'cursor-2 after cursor-1'])
  t.same(await read(), ['cursor-2 after cursor-1', 'cursor-3 after cursor-2'], 'another loop goes on there')
})

t.test('an event is read in any pieces, with any line breaks', async (t) => {
  const { server, open } = await start(t)
  const { next } = await open()
  const [stream] = server.streams.keys()
  stream?.socket?.setNoDelay(true)
  const lines = [
    ': hello',
    'id: cursor-9',
    'event: users.created',
    'data: {"id":"é€😀",',
    'data: "revision":1}',
  ]
  for (const byte of Buffer.from(`${lines.join('\r\n')}\r\n\r\n`))
    await new Promise((resolve) => stream?.write(Buffer.from([byte]), resolve))
  t.match(await next, { value: { cursor: 'cursor-9', event: { id: 'é€😀', revision: 1 } } })
})

t.test(
  'refusals that another attempt does not change are errors, also one that ends the stream',
  async (t) => {
    const { server, open } = await start(t)
    const { next } = await open()
    server.expire()
    const expired = { name: 'ApiError', status: 410, code: 'EVENTS_EXPIRED', message: /cursor were removed/ }
    t.match(await next, expired)
    t.equal(server.requests.length, 1)

    server.removeUntil(5)
    const read = (cursor: string, apiKey = API_KEY) => {
      const { events } = createClient({ baseUrl: server.url, apiKey })
      return events
        .stream({ cursor })
        [Symbol.asyncIterator]()
        .next()
        .catch((error) => error)
    }
    t.match(await read('cursor-4'), { ...expired, requestId: null })
    t.match(await read('nonsense'), { name: 'BadRequestError', code: 'INVALID_CURSOR' })
    t.match(await read('cursor-5', 'wrong'), { name: 'AuthenticationError', code: 'UNAUTHORIZED' })
    for (const [refusal, error] of [
      [{ status: 403, code: 'FORBIDDEN' }, { name: 'PermissionError' }],
      [{ status: 307, headers: { Location: 'http://other' } }, { code: 'REDIRECT' }],
      [{ status: 200 }, { name: 'ApiError', code: 'INVALID_RESPONSE' }],
    ] as const) {
      server.refusals.push(refusal)
      t.match(await read('cursor-5'), error)
    }
    t.equal(server.requests.length, 7)
  },
)

t.test('429 and errors of the server are tried again, not before Retry-After', async (t) => {
  const { server, events } = await start(t)
  const waits: { name: string; delayMs: number }[] = []
  const onReconnect: StreamOptions['onReconnect'] = ({ name }, delayMs) => waits.push({ name, delayMs })
  server.refusals.push({ status: 429, headers: { 'Retry-After': '2' } }, { status: 502 })
  server.add()
  const startedAt = performance.now()
  await readCursors(events.stream({ cursor: 'cursor-0' }, { onReconnect }), 1)
  t.match(waits, [{ name: 'RateLimitError', delayMs: 2_000 }, { name: 'ServerError' }])
  // The second pause is twice a second, which is the pause of a server that asks for none.
  t.ok(waits[1] && waits[1].delayMs >= 2_000 && waits[1].delayMs <= 3_000)
  t.ok(performance.now() - startedAt >= 3_990)
})

t.test('pauses grow while the server is away, and deadlineMs ends the attempts', async (t) => {
  const { server, open } = await start(t)
  const delays: number[] = []
  // Only the pauses take time.
  const clock = stopClock(t)
  const onReconnect = (_: unknown, delayMs: number) => {
    delays.push(delayMs)
    clock.pass(delayMs)
  }
  const { next } = await open({}, { deadlineMs: 1_000, onReconnect })
  server.sendPosition()
  server.refusals.push(...Array.from({ length: 20 }, () => ({ status: 503, code: 'SERVICE_UNAVAILABLE' })))
  server.cut()
  t.match(await next, { name: 'ServerError', code: 'SERVICE_UNAVAILABLE' })
  t.ok(delays.length >= 3 && delays.length < 8, `${delays.length} attempts`)
  // The server asked for 10 ms; half of it is random.
  for (const [i, delay] of delays.entries()) t.ok(delay >= 10 * 2 ** i && delay <= 15 * 2 ** i, `${delay} ms`)
})

t.test('a silent connection is given up after 15 s', async (t) => {
  const { server, open } = await start(t)
  // The 15 s take 300 ms.
  const { setTimeout } = globalThis
  let silences = 0
  const fast = (callback: () => void, ms?: number) => {
    if (ms !== 15_000) return setTimeout(callback, ms)
    silences += 1
    return setTimeout(callback, 300)
  }
  t.intercept(globalThis, 'setTimeout', { value: fast })
  const errors: string[] = []
  const onReconnect = ({ name, message }: Error) => errors.push(`${name}: ${message}`)
  const { items, next } = await open({ cursor: 'cursor-0' }, { onReconnect })
  await waitUntil(() => server.requests.length >= 2)
  server.add()
  await next
  t.equal(errors[0], 'TimeoutError: No response within 15000 ms')
  t.ok(silences >= 2)
  await items.return()
})

t.test('an access token that has expired is refreshed before the stream goes on', async (t) => {
  const { server, waitForEnd } = await start(t)
  let count = 0
  const ids = { sessionId: 's', userId: 'u' }
  const renewAt = Number.POSITIVE_INFINITY
  const expired: Tokens = { ...ids, accessToken: 'expired', refreshToken: 'r', renewAt }
  let kept = expired
  const set = (next: Tokens | null) => {
    kept = next ?? expired
  }
  const client = createClient({
    baseUrl: server.url,
    tokenStore: { get: () => kept, set },
    fetch: async (input, init) => {
      if (!String(input).endsWith('/api/v1/tokens')) return fetch(input, init)
      const access_token = `token-${++count}`
      server.credentials.add(access_token)
      const lifetimes = { expires_in: 900, refresh_expires_in: 9_000 }
      const session = { id: 't', token_type: 'Bearer', session_id: 's', user_id: 'u', refresh_token: 'r' }
      return Response.json({ data: { access_token, ...lifetimes, ...session }, meta: {} }, { status: 201 })
    },
  })
  server.add()
  const cursors = await readCursors(client.events.stream({ cursor: 'cursor-0' }), 2, async () => {
    // The API ends a stream when its credential does.
    server.credentials.clear()
    server.end()
    await waitForEnd()
    server.add()
  })
  t.same(cursors, ['cursor-1', 'cursor-2'])
  t.same(
    server.requests.map(({ headers }) => headers.authorization),
    ['expired', 'token-1', 'token-1', 'token-2'].map((each) => `Bearer ${each}`),
  )
})

t.test('the stream is read only as fast as it is iterated', async (t) => {
  const { server, open } = await start(t)
  const COUNT = 600
  const slow = await open()
  const [slowStream] = server.streams.keys()
  const fast = await open()
  await waitUntil(() => server.streams.size === 2)
  for (let i = 0; i < COUNT; i++) server.add({ data: { text: 'x'.repeat(50_000) } })
  await Promise.all([slow.next, fast.next])
  for (let i = 1; i < COUNT; i++) await fast.items.next()
  t.ok((slowStream?.writableLength ?? 0) > 15_000_000, `${slowStream?.writableLength} bytes were not read`)
  let last: string | undefined
  for (let i = 1; i < COUNT; i++) last = (await slow.items.next()).value?.cursor
  t.equal(last, `cursor-${COUNT}`)
  await Promise.all([slow.items.return(), fast.items.return()])
})

t.test('data that is not an event, or a line of more than 4 MiB, is an error', async (t) => {
  const { server, open, waitForEnd } = await start(t)
  for (const [text, message] of [
    ['id: 1\ndata: {\n\n', /./],
    ['data: {}\n\n', /./],
    [`data: ${'x'.repeat(5 * 1024 * 1024)}`, /4194304/],
  ] as const) {
    const { next } = await open()
    server.sendText(text)
    t.match(await next, { name: 'ApiError', code: 'INVALID_RESPONSE', message })
    await waitForEnd()
  }
})
