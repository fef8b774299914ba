/** A shutdown ends in time. That it completes running requests is in server-process.extended.test.ts and kill-recovery.extended.test.ts. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type FastifyInstance, fastify } from 'fastify'
import { type Test, test } from 'tap'
import errors from '../../../api/src/errors/errors.ts'
import { createAddressing } from '../../../api/src/versions/addresses.ts'
import { v1 } from '../../../api/src/versions/representation/v1.ts'
import { versions } from '../../../testing/helpers/shop.ts'
import { createDeferred } from '../../../testing/helpers/time.ts'
import responseHeaders from '../../src/http/response-headers.ts'
import shutdown, { type ShutdownOptions } from '../../src/operations/shutdown.ts'

/** Starts an app with a route that does not answer; `begun` resolves when it is called. */
async function listening(
  t: Test,
  options: ShutdownOptions,
): Promise<{ app: FastifyInstance; url: string; begun: Promise<void> }> {
  const app = fastify({ return503OnClosing: false, forceCloseConnections: 'idle' })
  app.decorate('addressing', createAddressing(versions, 1))
  await app.register(errors, { getErrorEnvelope: () => v1.error })
  await app.register(responseHeaders)
  await app.register(shutdown, options)
  const begun = createDeferred()
  app.get('/', () => {
    begun.resolve()
    return new Promise(() => undefined)
  })
  // Node.js closes no socket that sends nothing.
  Object.assign(app.server, { headersTimeout: 0, requestTimeout: 0 })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { app, url, begun: begun.promise }
}

test('a request that does not end is aborted after the grace period', async (t) => {
  const { app, url, begun } = await listening(t, { SHUTDOWN_DELAY: 0, grace: 200 })
  const running = t.rejects(fetch(url))
  await begun
  await app.drain()
  await running
})

test('an idle socket does not delay the shutdown', async (t) => {
  const { app, url } = await listening(t, { SHUTDOWN_DELAY: 0, grace: 200 })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(app.server, 'connection')
  const closed = once(socket, 'close')
  await app.drain()
  await t.resolves(closed)
})

test('two calls shut down once, and app.close() drains as well', async (t) => {
  const { app } = await listening(t, { SHUTDOWN_DELAY: 50 })
  t.equal(app.drain(), app.drain())
  await app.drain()
  const other = await listening(t, { SHUTDOWN_DELAY: 50 })
  await other.app.close()
  t.equal(other.app.draining, true)
})
