/** The client package with a server, a proxy or arguments that are not as they should be. */
import { createServer, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import t, { type Test } from 'tap'
import { ApiError, createClient, RateLimitError, ServerError } from '../../client/src/index.ts'
import { listen } from '../helpers/network.ts'

interface Reply {
  status: number
  headers?: OutgoingHttpHeaders
  body?: string
}

/** Starts a server that answers every request in the same way. */
async function startServer(t: Test, { status, headers = {}, body = '' }: Reply) {
  const received: IncomingMessage[] = []
  const server = createServer((request, response) => {
    received.push(request)
    response.writeHead(status, headers).end(body)
  })
  const baseUrl = `http://127.0.0.1:${await listen(server)}`
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  return { baseUrl, received, client: createClient({ baseUrl, apiKey: 'secret', deadlineMs: 5_000 }) }
}

const ADA = { name: 'Ada', email: 'ada@example.com' }
const SUCCESS = { status: 200, body: '{"data":{"id":"a"},"meta":{}}' }
const catchError = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error)

t.test('redirects are not followed, so that the API key stays with the server', async (t) => {
  const other = await startServer(t, SUCCESS)
  for (const status of [301, 302, 303, 307, 308]) {
    const { client, received } = await startServer(t, { status, headers: { Location: other.baseUrl } })
    const error = await catchError(client.users.create(ADA))
    t.type(error, ApiError)
    t.match(error, { status, code: 'REDIRECT', message: `redirects to ${other.baseUrl}` })
    t.equal(received.length, 1)
  }
  t.equal(other.received.length, 0)
})

t.test('a redirect whose status a browser hides is the same error', async (t) => {
  const hidden = Object.defineProperties(new Response(null), {
    type: { value: 'opaqueredirect' },
    status: { value: 0 },
  })
  const client = createClient({ baseUrl: 'http://localhost', apiKey: 'secret', fetch: async () => hidden })
  t.match(await catchError(client.users.get('me')), { name: 'ApiError', status: 0, code: 'REDIRECT' })
})

t.test('a success that is not from the API is an ApiError', async (t) => {
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
      client.users.create(ADA),
      session.users.get('me'),
    ]) {
      t.match(await catchError(call), { name: 'ApiError', status: 200, code: 'INVALID_RESPONSE' })
    }
  }
})

t.test('an error that is not from the API has a code and no fields', async (t) => {
  const html = await startServer(t, { status: 500, headers: { 'Content-Type': 'text/html' }, body: '<html>' })
  t.type(await catchError(html.client.users.get('a')), ServerError)
  const json = await startServer(t, {
    status: 400,
    body: '{"error":{"message":"no","code":7,"details":"?"}}',
  })
  const expected = { name: 'BadRequestError', code: 'HTTP_400', fields: [] }
  t.match(await catchError(json.client.users.get('a')), expected)
})

t.test('retries wait at least the backoff, whatever Retry-After is', async (t) => {
  const values = ['-5', '5.5', 'soon 7', '0', 'Thu, 01 Jan 1970 00:00:00 GMT']
  await Promise.all(
    values.map(async (value) => {
      const { client, received } = await startServer(t, { status: 429, headers: { 'Retry-After': value } })
      const startedAt = performance.now()
      const error = await catchError(client.users.get('a'))
      t.type(error, RateLimitError)
      // At least half of 200, 400 and 800 ms.
      t.ok(performance.now() - startedAt >= 690, value)
      t.equal(received.length, 4)
    }),
  )
})

t.test('a Retry-After of more than 24 days does not end the wait immediately', async (t) => {
  const { client, received } = await startServer(t, { status: 429, headers: { 'Retry-After': '9999999' } })
  const signal = AbortSignal.timeout(2_000)
  const waiting = client.users.get('a', {}, { signal, deadlineMs: Number.POSITIVE_INFINITY })
  t.match(await catchError(waiting), { name: 'TimeoutError' })
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
