/** Replies that take too long get 503, and connections that do not read their replies are closed. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import errors from '../../../api/src/errors/errors.ts'
import { getLifetime } from '../../../api/src/requests/lifetime.ts'
import { v1 } from '../../../api/src/versions/representation/v1.ts'
import { recordMessages } from '../../../testing/helpers/app.ts'
import timeouts from '../../src/http/timeouts.ts'

/** An app with timeouts of its own, which listens with its routes on a free port. */
async function listening(
  t: Test,
  options: Parameters<typeof timeouts>[1],
  routes: (app: FastifyInstance) => void,
) {
  const app = Fastify({ genReqId: () => 'the-request' })
  await app.register(errors, { getErrorEnvelope: () => v1.error })
  await app.register(timeouts, options)
  routes(app)
  t.teardown(() => app.close())
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  const open = () => {
    const socket = connect(Number(new URL(base).port), '127.0.0.1').on('error', () => {})
    t.teardown(() => socket.destroy())
    return socket.pause()
  }
  return { app, base, open }
}

t.test('a reply that takes too long becomes a 503 with Retry-After', async (t) => {
  const awaited: boolean[] = []
  const { base } = await listening(t, { responseTimeoutMs: 50 }, (app) => {
    app.get('/slow', async (_request, reply) => {
      awaited.push(getLifetime(reply.raw).isAwaited)
      await wait(150)
      awaited.push(getLifetime(reply.raw).isAwaited)
      return { late: true }
    })
    app.get('/fast', async () => ({ late: false }))
  })
  const slow = await fetch(`${base}/slow`)
  t.same([slow.status, slow.headers.get('retry-after')], [503, '2'])
  const message = 'The server did not respond in time'
  t.same(await slow.json(), { error: { code: 'SERVICE_UNAVAILABLE', message, request_id: 'the-request' } })
  await wait(150)
  t.strictSame(awaited, [true, false], 'the handler can detect the timeout')
  t.equal((await fetch(`${base}/fast`)).status, 200, 'and what came too late did no harm')
})

t.test('unread replies close their connection, also pipelined ones', async (t) => {
  const options = { responseTimeoutMs: 50, readTimeoutMs: 1_500 }
  const { app, base, open } = await listening(t, options, (app) => {
    app.get('/large', async () => 'x'.repeat(10_000_000))
    app.post('/slow', async () => 'done')
  })
  const seen = recordMessages(t, 'resource-api:overload:unread')
  const left = () => new Promise<number>((resolve) => app.server.getConnections((_, count) => resolve(count)))

  open().write('GET /large HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(3))
  while (seen.length === 0) await wait(5)
  while ((await left()) > 0) await wait(5)
  t.ok(seen.length >= 1)

  const before = seen.length
  const whole = await (await fetch(`${base}/large`)).text()
  t.equal(whole.length, 10_000_000, 'a client that reads gets the whole reply')
  const body = open().resume()
  body.write('POST /slow HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nab')
  await wait(200)
  const answer = once(body, 'data')
  body.write('cd')
  t.match(String(await answer), /^HTTP\/1.1 200 /, 'a slow request body does not count as an unread reply')
  t.equal(seen.length, before)
})

t.test('unread replies are limited in total memory, and the oldest is closed first', async (t) => {
  // No connection is closed because its client is slow.
  const options = { maxUnreadLength: 45_000_000, readTimeoutMs: 3_600_000 }
  const { app, base, open } = await listening(t, options, (app) => {
    // Twice as many bytes as characters: the limit is in bytes.
    app.get('/large', async () => 'é'.repeat(10_000_000))
    app.get('/small', async () => 'x'.repeat(60_000))
  })
  const served: Socket[] = []
  app.server.on('request', (request) => served.push(request.socket))
  const ask = async (path: string) => {
    open().write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const before = served.length
    while (served.length === before) await wait(5)
  }
  for (const path of ['/large', '/small', '/large']) await ask(path)
  t.notOk(served.some(({ destroyed }) => destroyed))
  await ask('/large')
  while (!served[0]?.destroyed) await wait(5)
  for (let i = 0; i < 5; i++) t.equal((await (await fetch(`${base}/small`)).text()).length, 60_000)
  t.notOk(
    served.slice(1).some(({ destroyed }) => destroyed),
    'small ones close no other',
  )
})
