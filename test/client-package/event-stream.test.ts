/** The client package follows the stream of events, and connects again without losing or repeating an event. */
import t, { type Test } from 'tap'
import { createClient, type StreamedEvent, type StreamOptions, type Tokens } from '../../client/src/index.ts'
import { startFakeEventServer } from '../helpers/fake-event-server.ts'
import { stopClock, waitUntil } from '../helpers/time.ts'

const API_KEY = 'secret'

async function start(t: Test) {
  const server = await startFakeEventServer(t)
  return { server, client: createClient({ baseUrl: server.url, apiKey: API_KEY }) }
}

type EventStream = ReturnType<ReturnType<typeof createClient>['events']['stream']>

const readNext = (stream: EventStream) => stream[Symbol.asyncIterator]().next()

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
  const { server, client } = await start(t)
  server.add()
  const stream = client.events.stream()
  t.equal(server.requests.length, 0, 'without iteration there is no request')
  const items = stream[Symbol.asyncIterator]()
  const first = items.next()
  await waitUntil(() => server.streams.size === 1)
  const event = server.add({ type: 'users.updated', previous: { status: 'active' } })
  t.strictSame(await first, { done: false, value: { cursor: 'cursor-2', event } })
  t.match(server.requests[0]?.headers, { accept: 'text/event-stream', 'x-api-key': API_KEY })
  t.notOk(server.requests[0]?.headers['last-event-id'])
  await items.return()
})

t.test('filters and a cursor select the events', async (t) => {
  const { server, client } = await start(t)
  const types = ['users.created', 'sessions.created', 'api-keys.updated', 'users.deleted'] as const
  for (const type of types) server.add({ type })
  const query = { type: ['users.*', 'api-keys.updated'], resource_type: 'users', actor_id: 'user-1' }
  const stream = client.events.stream({ ...query, cursor: 'cursor-1' })
  t.same(await readCursors(stream, 2), ['cursor-3', 'cursor-4'])
  const url = decodeURIComponent(server.requests[0]?.url ?? '')
  t.equal(url, '/api/v1/events?type=users.*,api-keys.updated&resource_type=users&actor_id=user-1')
})

t.test('leaving the loop closes the connection', async (t) => {
  const { server, client } = await start(t)
  server.add()
  for await (const _ of client.events.stream({ cursor: 'cursor-0' })) break
  await waitUntil(() => server.streams.size === 0)
  const fail = async () => {
    for await (const _ of client.events.stream({ cursor: 'cursor-0' })) throw new Error('of the consumer')
  }
  await t.rejects(fail(), { message: 'of the consumer' })
  await waitUntil(() => server.streams.size === 0)
  t.equal(server.requests.length, 2, 'and an error of the consumer is not a lost connection')
})

t.test('an abort ends the stream without an error, whatever it waits for', async (t) => {
  const { server, client } = await start(t)
  const readAll = async (signal: AbortSignal, onReconnect = () => {}) => {
    const items: StreamedEvent[] = []
    for await (const item of client.events.stream({}, { signal, onReconnect })) items.push(item)
    return items.length
  }
  const reading = new AbortController()
  const read = readAll(reading.signal)
  await waitUntil(() => server.streams.size === 1)
  reading.abort()
  t.equal(await read, 0, 'an event')
  await waitUntil(() => server.streams.size === 0)

  const waiting = new AbortController()
  server.refusals.push({ status: 503, headers: { 'Retry-After': '3600' } })
  t.equal(await readAll(waiting.signal, () => waiting.abort()), 0, 'the next attempt')
  t.equal(await readAll(waiting.signal), 0, 'nothing yet')
  t.equal(server.requests.length, 2)
})

t.test('after a lost connection the stream goes on after the last event', async (t) => {
  const { server, client } = await start(t)
  const losses: string[] = []
  const stream = client.events.stream(
    { cursor: 'cursor-0' },
    { onReconnect: ({ name, message }) => losses.push(`${name}: ${message}`) },
  )
  server.add()
  const cursors = await readCursors(stream, 4, async ({ length }) => {
    if (length === 1) server.cut()
    else server.end()
    await waitUntil(() => server.streams.size === 0)
    server.add()
  })
  t.same(cursors, ['cursor-1', 'cursor-2', 'cursor-3', 'cursor-4'])
  t.same(losses, [
    'NetworkError: The connection of the stream was lost',
    'NetworkError: The server ended the stream',
    'NetworkError: The server ended the stream',
  ])
  t.same(
    server.requests.map(({ headers }) => headers['last-event-id']),
    ['cursor-0', 'cursor-1', 'cursor-2', 'cursor-3'],
  )
})

t.test('a comment moves the position from which the stream goes on', async (t) => {
  const { server, client } = await start(t)
  const stream = client.events.stream({ type: 'sessions.created', cursor: 'cursor-0' })
  const next = readNext(stream)
  await waitUntil(() => server.streams.size === 1)
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
  const { server, client } = await start(t)
  for (let i = 0; i < 3; i++) server.add()
  const stream = client.events.stream({ cursor: 'cursor-0' })
  const read = async (count: number) => {
    const steps: string[] = []
    for await (const { cursor } of stream) {
      steps.push(`${cursor} after ${stream.cursor}`)
      if (steps.length === count) break
    }
    return steps
  }
  t.same(await read(2), ['cursor-1 after cursor-0', 'cursor-2 after cursor-1'])
  t.same(await read(2), ['cursor-2 after cursor-1', 'cursor-3 after cursor-2'], 'another loop goes on there')
})

t.test('an event is read in any pieces, with any line breaks', async (t) => {
  const { server, client } = await start(t)
  const text =
    ': hello\r\nid: cursor-9\r\nevent: users.created\r\ndata: {"id":"é€😀",\r\ndata: "revision":1}\r\n\r\n'
  const bytes = Buffer.from(text)
  const next = readNext(client.events.stream())
  await waitUntil(() => server.streams.size === 1)
  const [stream] = server.streams.keys()
  stream?.socket?.setNoDelay(true)
  for (const byte of bytes) await new Promise((resolve) => stream?.write(Buffer.from([byte]), resolve))
  t.match(await next, { value: { cursor: 'cursor-9', event: { id: 'é€😀', revision: 1 } } })
})

t.test('an error that ends the stream is that of a refused cursor', async (t) => {
  const { server, client } = await start(t)
  const next = readNext(client.events.stream()).catch((error) => error)
  await waitUntil(() => server.streams.size === 1)
  server.expire()
  t.match(await next, {
    name: 'ApiError',
    status: 410,
    code: 'EVENTS_EXPIRED',
    message: /cursor were removed/,
  })
  t.equal(server.requests.length, 1, 'another attempt would not change it')
})

t.test('refusals that another attempt does not change are errors', async (t) => {
  const server = await startFakeEventServer(t)
  server.removeUntil(5)
  const read = (cursor: string, apiKey = API_KEY) =>
    readNext(createClient({ baseUrl: server.url, apiKey }).events.stream({ cursor })).catch((error) => error)
  const expired = { name: 'ApiError', status: 410, code: 'EVENTS_EXPIRED', requestId: null }
  t.match(await read('cursor-4'), expired)
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
  t.equal(server.requests.length, 6)
})

t.test('429 and errors of the server are tried again, not before Retry-After', async (t) => {
  const { server, client } = await start(t)
  const waits: { name: string; delayMs: number }[] = []
  const onReconnect: StreamOptions['onReconnect'] = ({ name }, delayMs) => waits.push({ name, delayMs })
  server.refusals.push({ status: 429, headers: { 'Retry-After': '2' } }, { status: 502 })
  server.add()
  const startedAt = performance.now()
  for await (const _ of client.events.stream({ cursor: 'cursor-0' }, { onReconnect })) break
  t.same(
    waits.map(({ name }) => name),
    ['RateLimitError', 'ServerError'],
  )
  t.equal(waits[0]?.delayMs, 2_000)
  // The second pause is twice a second, which is the pause of a server that asks for none.
  t.ok(waits[1] && waits[1].delayMs >= 2_000 && waits[1].delayMs <= 3_000)
  t.ok(performance.now() - startedAt >= 3_990)
})

t.test('pauses grow while the server is away, and deadlineMs ends the attempts', async (t) => {
  const { server, client } = await start(t)
  const delays: number[] = []
  // Only the pauses take time.
  const clock = stopClock(t)
  const onReconnect = (_: unknown, delayMs: number) => {
    delays.push(delayMs)
    clock.pass(delayMs)
  }
  const options = { deadlineMs: 1_000, onReconnect }
  const next = readNext(client.events.stream({}, options))
  await waitUntil(() => server.streams.size === 1)
  server.sendPosition()
  server.refusals.push(...Array.from({ length: 20 }, () => ({ status: 503, code: 'SERVICE_UNAVAILABLE' })))
  server.cut()
  t.match(await next.catch((error) => error), { name: 'ServerError', code: 'SERVICE_UNAVAILABLE' })
  t.ok(delays.length >= 3 && delays.length < 8, `${delays.length} attempts`)
  // The server asked for 10 ms; half of it is random.
  for (const [i, delay] of delays.entries()) t.ok(delay >= 10 * 2 ** i && delay <= 15 * 2 ** i, `${delay} ms`)
})

t.test('a silent connection is given up after 15 s', async (t) => {
  const { server, client } = await start(t)
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
  const options = { onReconnect: ({ name, message }: Error) => errors.push(`${name}: ${message}`) }
  const items = client.events.stream({ cursor: 'cursor-0' }, options)[Symbol.asyncIterator]()
  const first = items.next()
  await waitUntil(() => server.requests.length >= 2)
  server.add()
  await first
  t.equal(errors[0], 'TimeoutError: No response within 15000 ms')
  t.ok(silences >= 2)
  await items.return()
})

t.test('an access token that has expired is refreshed before the stream goes on', async (t) => {
  const server = await startFakeEventServer(t)
  let count = 0
  const ids = { sessionId: 's', userId: 'u' }
  const expired: Tokens = {
    ...ids,
    accessToken: 'expired',
    refreshToken: 'r',
    renewAt: Number.POSITIVE_INFINITY,
  }
  let kept = expired
  const client = createClient({
    baseUrl: server.url,
    tokenStore: {
      get: () => kept,
      set: (next) => {
        kept = next ?? expired
      },
    },
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
    await waitUntil(() => server.streams.size === 0)
    server.add()
  })
  t.same(cursors, ['cursor-1', 'cursor-2'])
  t.same(
    server.requests.map(({ headers }) => headers.authorization),
    ['expired', 'token-1', 'token-1', 'token-2'].map((each) => `Bearer ${each}`),
  )
})

t.test('the stream is read only as fast as it is iterated', async (t) => {
  const { server, client } = await start(t)
  const COUNT = 600
  const open = async (size: number) => {
    const items = client.events.stream()[Symbol.asyncIterator]()
    const first = items.next()
    await waitUntil(() => server.streams.size === size)
    return { items, first }
  }
  const slow = await open(1)
  const [slowStream] = server.streams.keys()
  const fast = await open(2)
  for (let i = 0; i < COUNT; i++) server.add({ data: { text: 'x'.repeat(50_000) } })
  await Promise.all([slow.first, fast.first])
  for (let i = 1; i < COUNT; i++) await fast.items.next()
  t.ok((slowStream?.writableLength ?? 0) > 15_000_000, `${slowStream?.writableLength} bytes were not read`)
  let last: string | undefined
  for (let i = 1; i < COUNT; i++) last = (await slow.items.next()).value?.cursor
  t.equal(last, `cursor-${COUNT}`)
  await Promise.all([slow.items.return(), fast.items.return()])
})

t.test('data that is not an event, or a line of more than 4 MiB, is an error', async (t) => {
  const { server, client } = await start(t)
  for (const [text, message] of [
    ['id: 1\ndata: {\n\n', /./],
    ['data: {}\n\n', /./],
    [`data: ${'x'.repeat(5 * 1024 * 1024)}`, /4194304/],
  ] as const) {
    const next = readNext(client.events.stream())
    await waitUntil(() => server.streams.size === 1)
    server.sendText(text)
    t.match(await next.catch((error) => error), { name: 'ApiError', code: 'INVALID_RESPONSE', message })
    await waitUntil(() => server.streams.size === 0)
  }
})
