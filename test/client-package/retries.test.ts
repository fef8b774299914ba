/** The client package repeats what failed, so that each write is done once, within a deadline. */
import { createServer } from 'node:http'
import t from 'tap'
import {
  createClient,
  NetworkError,
  NotFoundError,
  RateLimitError,
  ServerError,
  TimeoutError,
} from '../../client/src/index.ts'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { listen } from '../helpers/network.ts'
import { startProxy } from '../helpers/proxy.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'
import { createClock } from '../helpers/time.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const createBody = () => ({ name: 'Ada', email: `${createUniqueName('ada')}@example.com` })

t.test('retries', async (t) => {
  const database = await createSharedDatabase(t)
  const { base: baseUrl } = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database })
  const direct = createClient({ baseUrl, apiKey: ADMIN_KEY })
  /** Creates a client that loses the response to its first request. */
  const createLossy = () => {
    const recorded = createRecordedFetch((_, index) => index === 0)
    return { ...recorded, client: createClient({ baseUrl, apiKey: ADMIN_KEY, fetch: recorded.fetch }) }
  }

  t.test('a write whose connection is cut is sent again with the same key and done once', async (t) => {
    const proxy = await startProxy(t, baseUrl)
    const recorded = createRecordedFetch()
    const keys: (string | null)[] = []
    const client = createClient({
      baseUrl: proxy.url,
      apiKey: ADMIN_KEY,
      fetch: async (input, init) => {
        keys.push(new Headers(init?.headers).get('Idempotency-Key'))
        // The proxy resets the connection when the server answers the first request.
        if (keys.length === 1) proxy.resetAfter(0)
        else await proxy.set('pass')
        return recorded.fetch(input, init)
      },
    })
    const body = createBody()
    const { data, headers } = await client.users.create(body).withResponse()
    t.same(recorded.summarize(), ['POST /users 0', 'POST /users 201'])
    t.equal(headers.get('Idempotency-Replayed'), 'true')
    t.match(keys[0], /^[\w-]{36}$/)
    t.equal(keys[1], keys[0])
    t.same(await direct.users.list({ email: body.email }).toArray(), [data])
  })

  t.test('a key of the caller is used, and each call has its own', async (t) => {
    const { fetch, sent } = createRecordedFetch()
    const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
    const ada = createBody()
    const idempotencyKey = createUniqueName('key')
    const first = await client.users.create(ada, { idempotencyKey })
    t.equal((await client.users.create(ada, { idempotencyKey })).id, first.id)
    await client.users.update(first.id, { name: 'Ada King' })
    await client.users.update(first.id, { name: 'Ada King' })
    const keys = sent.map(({ headers }) => headers.get('idempotency-key'))
    t.same(keys.slice(0, 2), [idempotencyKey, idempotencyKey])
    t.not(keys[2], keys[3])
  })

  t.test('an update with ifMatch whose response was lost succeeds', async (t) => {
    const { data, etag } = await direct.users.create(createBody()).withResponse()
    const { client, summarize } = createLossy()
    const updated = await client.users.update(data.id, { name: 'Ada King' }, { ifMatch: etag ?? '' })
    t.equal(updated.name, 'Ada King')
    t.same(summarize(), [`PATCH /users/${data.id} 0`, `PATCH /users/${data.id} 200`])
  })

  t.test('a deletion whose response was lost succeeds, although the resource is not found', async (t) => {
    const { id } = await direct.users.create(createBody())
    const { client, summarize } = createLossy()
    t.equal(await client.users.delete(id), undefined)
    t.same(summarize(), [`DELETE /users/${id} 0`, `DELETE /users/${id} 404`])
    await t.rejects(client.users.delete(id), NotFoundError)
  })

  t.test('a replacement with ifMatch whose response was lost fails as unknown, not as 412', async (t) => {
    const { data, etag } = await direct.users.create(createBody()).withResponse()
    const { client } = createLossy()
    const body = { ...createBody(), name: 'Ada King' }
    const error = await client.users.replace(data.id, body, { ifMatch: etag ?? '' }).catch((e) => e)
    t.match(error, { name: 'NetworkError', message: /Read it to see whether this replacement was done/ })
    t.equal((await direct.users.get(data.id)).name, 'Ada King')
    const { name } = await createLossy().client.users.replace(data.id, body)
    t.equal(name, 'Ada King', 'without ifMatch it is sent again')
  })

  t.test('a sign-up whose response was lost is not sent again, because it has no key', async (t) => {
    const { fetch, summarize } = createRecordedFetch(() => true)
    const anonymous = createClient({ baseUrl, fetch })
    const body = { name: 'Ada', email: `${createUniqueName('ada')}@example.com`, password: 'nine brass cogs' }
    await t.rejects(anonymous.users.create(body), NetworkError)
    t.same(summarize(), ['POST /users 0'])
  })

  t.test('after three retries, the error has its cause', async (t) => {
    const { fetch, sent } = createRecordedFetch(() => true)
    const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
    const startedAt = performance.now()
    const error = await client.users.get('me').catch((e) => e)
    const expected = { name: 'NetworkError', status: 0, code: 'NETWORK_ERROR', requestId: null }
    t.match(error, { ...expected, cause: TypeError })
    t.equal(sent.length, 4)
    // At least half of 200, 400 and 800 ms.
    t.ok(performance.now() - startedAt >= 700)
  })

  t.test('429 is sent again after Retry-After', async (t) => {
    // The window ends when a request was refused.
    const clock = createClock()
    const settings = { RATE_LIMIT: '2', RATE_LIMIT_WINDOW: '3' }
    const app = await testApp(t, settings, { database, now: clock.now })
    const { key } = await app.person('admin')
    const { fetch, sent, summarize } = createRecordedFetch()
    const client = createClient({
      baseUrl: app.base,
      apiKey: key,
      fetch: async (input, init) => {
        const response = await fetch(input, init)
        if (response.status === 429) clock.pass(3_000)
        return response
      },
    })
    const startedAt = performance.now()
    await Promise.all(Array.from({ length: 4 }, () => client.users.get('me')))
    t.ok(summarize().includes('GET /users/me 429'))
    // Retry-After is at least a second; timers may be a millisecond early.
    t.ok(performance.now() - startedAt >= 990)
    sent.length = 0

    const long = { RATE_LIMIT: '1', RATE_LIMIT_WINDOW: '3600' }
    const slow = await testApp(t, long, { database, now: clock.now })
    const limited = createClient({ baseUrl: slow.base, apiKey: key, fetch, deadlineMs: 60_000 })
    await limited.users.get('me')
    const error = await limited.users.get('me').catch((e) => e)
    t.type(error, RateLimitError)
    t.match(error, { status: 429, code: 'RATE_LIMIT_EXCEEDED' })
    t.equal(error.retryAfterMs, 3_600_000)
    t.equal(sent.length, 2, 'no retry that would begin after the deadline')
  })

  t.test('503 and the 409 of a running write are sent again, other errors are not', async (t) => {
    const script = [
      { status: 503, headers: { 'Retry-After': new Date().toUTCString() } },
      { status: 409, headers: { 'Retry-After': '0' } },
      { status: 502, headers: {} },
      { status: 409, headers: {} },
      { status: 500, headers: {} },
    ]
    const received: string[] = []
    const server = createServer((request, response) => {
      received.push(String(request.headers['idempotency-key']))
      const { status, headers } = script.shift() ?? { status: 204, headers: {} }
      response.writeHead(status, headers).end('not JSON')
    })
    const port = await listen(server)
    t.teardown(() => server.close())
    const client = createClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: ADMIN_KEY })
    const conflict = await client.users.create(createBody()).catch((e) => e)
    t.match(conflict, { name: 'ConflictError', status: 409, code: 'HTTP_409', message: /status 409/ })
    t.equal(received.length, 4)
    t.equal(new Set(received).size, 1)
    await t.rejects(client.users.get(UNKNOWN_ID), ServerError)
    t.equal(received.length, 5)
  })

  t.test('a deadline ends the call with TimeoutError, and a signal with its reason', async (t) => {
    const server = createServer(() => undefined)
    const port = await listen(server)
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    const client = createClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: ADMIN_KEY, deadlineMs: 100 })
    const error = await client.users.get('me').catch((e) => e)
    t.type(error, TimeoutError)
    t.type(error, NetworkError)
    t.match(error, { code: 'TIMEOUT', message: 'No response within 100 ms' })
    await t.rejects(client.users.get('me', {}, { deadlineMs: 50 }), { message: 'No response within 50 ms' })
    const edit = client.users.edit('me', () => undefined, { deadlineMs: 50 })
    await t.rejects(edit, { name: 'TimeoutError', message: 'No response within 50 ms' })

    await t.rejects(client.users.get('me', {}, { signal: AbortSignal.abort() }), { name: 'AbortError' })
    const running = { signal: AbortSignal.timeout(20), deadlineMs: 600_000 }
    await t.rejects(client.users.get('me', {}, running), { name: 'TimeoutError' })
  })

  t.test('a signal also ends the wait before a retry', async (t) => {
    const aborter = new AbortController()
    let count = 0
    const fetch = async () => {
      count += 1
      // By then, the client waits.
      setImmediate(() => aborter.abort())
      throw new TypeError('fetch failed')
    }
    const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
    await t.rejects(client.users.get('me', {}, { signal: aborter.signal }), { name: 'AbortError' })
    t.equal(count, 1)
  })
})
