import { setTimeout as wait } from 'node:timers/promises'
import Fastify from 'fastify'
import t from 'tap'
import deadline, { isAwaited } from '../plugins/deadline.ts'
import errors from '../plugins/errors.ts'
import { createAddressing, versions } from '../plugins/version.ts'

t.test('an answer that takes too long is 503 with Retry-After; one in time is itself', async (t) => {
  const app = Fastify({ genReqId: () => 'the-request' })
  app.decorate('addressing', createAddressing(versions, 1))
  await app.register(errors)
  await app.register(deadline, { milliseconds: 50 })
  const awaited: boolean[] = []
  app.get('/slow', async (_request, reply) => {
    awaited.push(isAwaited(reply))
    await wait(150)
    awaited.push(isAwaited(reply))
    return { late: true }
  })
  app.get('/fast', async () => ({ late: false }))
  t.teardown(() => app.close())
  const base = await app.listen({ port: 0, host: '127.0.0.1' })

  const slow = await fetch(`${base}/slow`)
  t.equal(slow.status, 503)
  t.equal(slow.headers.get('retry-after'), '2')
  t.same(await slow.json(), {
    error: { code: 'SERVICE_UNAVAILABLE', message: 'The answer took too long', request_id: 'the-request' },
  })
  await wait(150)
  t.strictSame(awaited, [true, false], 'who works on it can tell that it came too late')
  t.equal((await fetch(`${base}/fast`)).status, 200, 'and what came too late did no harm')
})
