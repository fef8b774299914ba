/** The client package repeats what failed, so that each write is done once, and refuses what the API did not send. */
import { createServer, type OutgoingHttpHeaders } from 'node:http'
import t, { type Test } from 'tap'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { listen } from '../../testing/helpers/network.ts'
import { startProxy } from '../../testing/helpers/proxy.ts'
import { createRecordedFetch } from '../../testing/helpers/recorded-fetch.ts'
import { createClock } from '../../testing/helpers/time.ts'
import { createUniqueName } from '../../testing/helpers/versioned-client.ts'
import { Deadline } from '../src/deadline.ts'
import {
  ApiError,
  createClient,
  NetworkError,
  NotFoundError,
  RateLimitError,
  ServerError,
  TimeoutError,
} from '../src/index.ts'

const createBody = () => ({ name: 'Ada', email: `${createUniqueName('ada')}@example.com` })
const catchError = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error)

interface Answer {
  status: number
  headers?: OutgoingHttpHeaders
  body?: string
}

/** Starts a server that gives these answers, and the last one to all further requests; none: it never answers. */
async function startServer(t: Test, ...answers: Answer[]) {
  const received: { url: string; key: string }[] = []
  const server = createServer(({ url = '', headers }, response) => {
    received.push({ url, key: String(headers['idempotency-key']) })
    const answer = answers[Math.min(received.length, answers.length) - 1]
    if (answer) response.writeHead(answer.status, answer.headers ?? {}).end(answer.body)
  })
  const baseUrl = `http://127.0.0.1:${await listen(server)}`
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  return { baseUrl, received, client: createClient({ baseUrl, apiKey: 'secret', deadlineMs: 5_000 }) }
}

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

t.test('a write whose response was lost succeeds, or fails as unknown', async (t) => {
  const { data, etag } = await direct.users.create(createBody()).withResponse()
  const { id } = data
  const updating = createLossy()
  const updated = await updating.client.users.update(id, { name: 'Ada' }, { ifMatch: etag ?? '' })
  t.equal(updated.name, 'Ada')
  t.same(updating.summarize(), [`PATCH /users/${id} 0`, `PATCH /users/${id} 200`])

  // A PUT has no key: that it is 412 the second time does not say whether the first one was done.
  const body = { ...createBody(), name: 'Ada King' }
  const { etag: current } = await direct.users.get(id).withResponse()
  const replaced = createLossy().client.users.replace(id, body, { ifMatch: current ?? '' })
  const message = /Read it to see whether this replacement was done/
  t.match(await catchError(replaced), { name: 'NetworkError', message })
  t.equal((await direct.users.get(id)).name, 'Ada King')
  t.equal((await createLossy().client.users.replace(id, body)).name, 'Ada King', 'sent again without ifMatch')

  const deleting = createLossy()
  t.equal(await deleting.client.users.delete(id), undefined, 'although the resource is not found')
  t.same(deleting.summarize(), [`DELETE /users/${id} 0`, `DELETE /users/${id} 404`])
  await t.rejects(deleting.client.users.delete(id), NotFoundError)
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
  const { client, received } = await startServer(
    t,
    { status: 503, headers: { 'Retry-After': new Date().toUTCString() } },
    { status: 409, headers: { 'Retry-After': '0' } },
    { status: 502 },
    { status: 409, body: 'not JSON' },
    { status: 500 },
  )
  const conflict = await catchError(client.users.create(createBody()))
  t.match(conflict, { name: 'ConflictError', status: 409, code: 'HTTP_409', message: /status 409/ })
  t.equal(received.length, 4)
  t.equal(new Set(received.map(({ key }) => key)).size, 1)
  await t.rejects(client.users.get(UNKNOWN_ID), ServerError)
  t.equal(received.length, 5)
})

t.test('a deadline ends the call with TimeoutError, and a signal with its reason', async (t) => {
  const { baseUrl } = await startServer(t)
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY, deadlineMs: 100 })
  const error = await catchError(client.users.get('me'))
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

const SUCCESS = { status: 200, body: '{"data":{"id":"a"},"meta":{}}' }

t.test('redirects are not followed, so that the API key stays with the server', async (t) => {
  const other = await startServer(t, SUCCESS)
  for (const status of [301, 302, 303, 307, 308]) {
    const { client, received } = await startServer(t, { status, headers: { Location: other.baseUrl } })
    const error = await catchError(client.users.create(createBody()))
    t.type(error, ApiError)
    t.match(error, { status, code: 'REDIRECT', message: `redirects to ${other.baseUrl}` })
    t.equal(received.length, 1)
  }
  t.equal(other.received.length, 0)
  // A browser hides the status.
  const hidden = Object.defineProperties(new Response(null), {
    type: { value: 'opaqueredirect' },
    status: { value: 0 },
  })
  const client = createClient({ baseUrl: 'http://localhost', apiKey: 'secret', fetch: async () => hidden })
  t.match(await catchError(client.users.get('me')), { name: 'ApiError', status: 0, code: 'REDIRECT' })
})

t.test('a response that is not from the API is an ApiError with a code and no fields', async (t) => {
  const contentType = { 'Content-Type': 'text/html' }
  for (const reply of [
    { status: 200, headers: contentType, body: '<html>Sign in</html>' },
    { status: 200, headers: { 'Content-Length': '0' } },
    { status: 200 },
    { status: 200, body: '{}' },
    { status: 200, body: 'null' },
  ]) {
    const { client, baseUrl } = await startServer(t, reply)
    const session = createClient({ baseUrl, signIn: { email: 'ada@example.com', password: 'nine cogs' } })
    for (const call of [
      client.users.get('a'),
      client.users.list().toArray(),
      client.users.create(createBody()),
      session.users.get('me'),
    ]) {
      t.match(await catchError(call), { name: 'ApiError', status: 200, code: 'INVALID_RESPONSE' })
    }
  }
  const html = await startServer(t, { status: 500, headers: { 'Content-Type': 'text/html' }, body: '<html>' })
  t.type(await catchError(html.client.users.get('a')), ServerError)
  const json = await startServer(t, {
    status: 400,
    body: '{"error":{"message":"no","code":7,"details":"?"}}',
  })
  const error = await catchError(json.client.users.get('a'))
  t.match(error, { name: 'BadRequestError', code: 'HTTP_400' })
  t.same(error instanceof ApiError && error.fields, [])
})

t.test('retries wait at least the backoff, whatever Retry-After is', async (t) => {
  const waits: number[] = []
  t.intercept(Deadline.prototype, 'wait', { value: async (ms: number) => void waits.push(ms) })
  for (const value of ['-5', '5.5', 'soon 7', '0', 'Thu, 01 Jan 1970 00:00:00 GMT']) {
    const { client, received } = await startServer(t, { status: 429, headers: { 'Retry-After': value } })
    t.type(await catchError(client.users.get('a')), RateLimitError)
    t.equal(received.length, 4)
    const taken = waits.splice(0)
    t.equal(taken.length, 3)
    for (const [i, backoff] of [200, 400, 800].entries()) {
      const wait = taken[i] ?? 0
      t.ok(wait >= backoff / 2 && wait <= backoff, `${value}: ${wait} ms`)
    }
  }
})

t.test('a retry waits for a Retry-After of more than the 24 days that a timer takes', async (t) => {
  const { client, received } = await startServer(t, { status: 429, headers: { 'Retry-After': '9999999' } })
  const controller = new AbortController()
  const { setTimeout: startTimer } = globalThis
  const delays: number[] = []
  t.intercept(globalThis, 'setTimeout', {
    value: (run: () => void, ms = 0) => {
      // The first one is that of the deadline.
      if (ms > 1_000_000_000 && delays.push(ms) === 2) setImmediate(() => controller.abort())
      return startTimer(run, ms)
    },
  })
  const options = { signal: controller.signal, deadlineMs: Number.POSITIVE_INFINITY }
  t.match(await catchError(client.users.get('a', {}, options)), { name: 'AbortError' })
  t.same(delays, [2 ** 31 - 1, 2 ** 31 - 1])
  t.equal(received.length, 1)
})

t.test('ids that a URL would resolve to another path are rejected', async (t) => {
  const { client, received } = await startServer(t, SUCCESS)
  for (const id of ['', '.', '..']) {
    for (const call of [
      client.users.get(id),
      client.userProfiles.delete(id),
      client.webhookEndpoints.deliveries('a').get(id),
      client.webhookEndpoints.deliveries(id).get('a'),
      client.http.DELETE('/api/v1/users/{id}', { params: { path: { id } } }),
    ]) {
      t.match(await catchError(call), { name: 'TypeError', message: /must be an id/ })
    }
  }
  t.equal(received.length, 0)
  await client.users.get('a/../b')
  t.equal(received[0]?.url, '/api/v1/users/a%2F..%2Fb')
})

t.test('an error of the token store is the error of the call', async (t) => {
  const { baseUrl, received } = await startServer(t, SUCCESS)
  const tokenStore = { get: () => JSON.parse('{'), set: () => undefined }
  const client = createClient({ baseUrl, tokenStore })
  t.match(await catchError(client.users.get('me')), { name: 'SyntaxError' })
  t.equal(received.length, 0)
})
