/** /livez says whether the process runs, /readyz whether it can serve requests. */
import { test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'

test('livez and readyz are 200 without credentials and are not cached', async (t) => {
  const { anybody } = await testApp(t)
  for (const path of ['/livez', '/readyz']) {
    const reply = await anybody.get(path)
    t.equal(reply.status, 200, path)
    t.same(reply.body, { status: 'ok' })
    t.equal(reply.headers.get('cache-control'), 'no-store')
    t.equal((await anybody.call('HEAD', path)).status, 200)
    t.equal((await anybody.get(`/api/v1${path}`)).status, 404, 'they have no version')
  }
})

test('readyz is 503 while the database does not respond, livez is 200', async (t) => {
  const real = await testDatabase(t)
  const asked: number[] = []
  let away = true
  const database = createDatabase({
    ...real.$client,
    ping: async (timeout) => {
      asked.push(timeout)
      if (away) throw new Error('connect ECONNREFUSED postgres://user:secret@database')
    },
  })
  const { anybody } = await testApp(t, {}, { database })
  const { status, body, headers, text } = await anybody.get('/readyz')
  t.match(
    [status, body.error.code, body.error.request_id],
    [503, 'SERVICE_UNAVAILABLE', headers.get('x-request-id')],
  )
  t.same([headers.get('retry-after'), headers.get('cache-control')], ['1', 'no-store'])
  t.notMatch(text, /ECONNREFUSED|secret/)
  t.same(asked, [1000])
  t.equal((await anybody.get('/livez')).status, 200)
  away = false
  t.equal((await anybody.get('/readyz')).status, 200)
})

test('from the start of a shutdown readyz is 503 and every reply closes its connection', async (t) => {
  const { app, anybody } = await testApp(t, { SHUTDOWN_DELAY: '2000' })
  t.equal((await anybody.get('/readyz')).headers.get('connection'), 'keep-alive')
  const drained = app.drain()
  t.equal(app.draining, true)
  for (const [path, status, retryAfter] of [
    ['/readyz', 503, '1'],
    ['/livez', 200, null],
    ['/nowhere', 404, null],
  ] as const) {
    const reply = await anybody.get(path)
    t.equal(reply.status, status, path)
    t.equal(reply.headers.get('retry-after'), retryAfter, path)
    t.equal(reply.headers.get('connection'), 'close', path)
  }
  await drained
})
