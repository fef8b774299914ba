/** A shutdown ends in time. That it completes running requests is in server-process.test.ts and kill-recovery.test.ts. */
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { type FastifyInstance, fastify } from 'fastify'
import { type Test, test } from 'tap'
import errors from '../../plugins/errors/index.ts'
import responseHeaders from '../../plugins/http/response-headers.ts'
import shutdown, { type ShutdownOptions } from '../../plugins/operations/shutdown.ts'
import { createAddressing, versions } from '../../plugins/versioning/index.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { getRunningTime } from '../helpers/time.ts'

/** The request takes longer, and so does Node.js until it closes an idle socket. */
const LIMIT_MS = 8_000

/** Starts an app with a route whose duration is in its path. */
async function listening(t: Test, options: ShutdownOptions): Promise<{ app: FastifyInstance; url: string }> {
  const app = fastify({ return503OnClosing: false, forceCloseConnections: 'idle' })
  app.decorate('addressing', createAddressing(versions, 1))
  await app.register(errors, { getErrorEnvelope: () => v1.error })
  await app.register(responseHeaders)
  await app.register(shutdown, options)
  app.get('/:ms', async (request) => {
    await wait(Number(Object(request.params).ms), undefined, { ref: false })
    return 'done'
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { app, url }
}

test('a request that does not end is aborted after the grace period', async (t) => {
  const { app, url } = await listening(t, { delay: 0, grace: 200 })
  const running = t.rejects(fetch(`${url}/9000`))
  await wait(100)
  const since = getRunningTime()
  await app.drain()
  await running
  t.ok(getRunningTime() - since < LIMIT_MS)
})

test('an idle socket does not delay the shutdown', async (t) => {
  const { app, url } = await listening(t, { delay: 0, grace: 200 })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  await wait(50)
  const since = getRunningTime()
  await app.drain()
  t.ok(getRunningTime() - since < LIMIT_MS)
})

test('two calls shut down once, and app.close() drains as well', async (t) => {
  const { app } = await listening(t, { delay: 50 })
  t.equal(app.drain(), app.drain())
  await app.drain()
  const other = await listening(t, { delay: 50 })
  await other.app.close()
  t.equal(other.app.draining, true)
})
