/** A request that waits too long for the database is answered with 503 within the documented times. */
import t, { type Test } from 'tap'
import { type Reply, testApp } from '../../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'

const LIST = '/api/v1/products'

function isUnavailable(t: Test, { status, headers, body }: Reply) {
  t.equal(status, 503)
  t.equal(headers.get('retry-after'), '2')
  t.equal(headers.get('cache-control'), 'no-store')
  t.match(body.error, { code: 'SERVICE_UNAVAILABLE', request_id: headers.get('x-request-id') })
}

t.test(
  'a request without a database connection in time gets 503, which is a warning in the log',
  async (t) => {
    const database = await testDatabase(t, 1_000)
    const lines: { level: string; request_id?: string; reason?: string; cause?: unknown }[] = []
    const logs = { write: (line: string) => lines.push(JSON.parse(line)) }
    const settings = { EVENTS: 'false', LOG_LEVEL: 'warn', METRICS_TOKEN: 'a-token-for-metrics' }
    const { admin, anybody } = await testApp(t, settings, { database, logs })
    const { promise: released, resolve: release } = createDeferred()
    const holders = Array.from({ length: database.getLoad().size }, () =>
      database.transaction(() => released),
    )
    const startedAt = performance.now()
    const reply = await admin.get(LIST)
    const waitedMs = performance.now() - startedAt
    release()
    await Promise.all(holders)
    isUnavailable(t, reply)
    t.ok(waitedMs > 990, `${waitedMs} ms`)
    t.equal((await admin.get(LIST)).status, 200)
    const requestId = reply.headers.get('x-request-id')
    const logged = lines.filter(({ request_id }) => request_id === requestId)
    t.match(logged, [{ level: 'warn', reason: 'pool', cause: { message: /none became free in time/ } }])
    t.equal(logged.length, 1)
    const metrics = await anybody.get('/metrics', { authorization: `Bearer ${settings.METRICS_TOKEN}` })
    t.match(metrics.text, /^contention_refused_total\{reason="pool"\} 1$/m)
  },
)

for (const [code, name, expected] of [
  ['40P01', 'a deadlock', { level: 'warn', reason: 'lock' }],
  ['40001', 'a conflict of transactions', { level: 'warn', reason: 'lock' }],
  ['55P03', 'a lock', { level: 'warn', reason: 'lock' }],
  ['53100', 'a full disk', { level: 'error', reason: undefined }],
] as const)
  t.test(`a request that fails because of ${name} gets 503, and ${expected.level} in the log`, async (t) => {
    const database = await testDatabase(t)
    const lines: { level: string; request_id?: string; reason?: string }[] = []
    const logs = { write: (line: string) => lines.push(JSON.parse(line)) }
    const { admin } = await testApp(t, { EVENTS: 'false', LOG_LEVEL: 'warn' }, { database, logs })
    await database.run(
      `create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'refused' using errcode = '${code}'; end $$`,
    )
    await database.run('create trigger refuse before insert on products execute function refuse()')
    const { headers, status } = await admin.post(LIST, { sku: 'tea', name: 'Tea', price_amount: 1 })
    t.equal(status, 503)
    t.same(
      lines.flatMap(({ level, reason, request_id }) =>
        request_id === headers.get('x-request-id') ? [{ level, reason }] : [],
      ),
      [expected],
    )
  })

const skip = SERVER ? false : 'PGlite has one connection, and no statement of it waits for another'

/** An app of one connection, and a second one that can lock its table. */
async function lockable(
  t: Test,
  options: { statementTimeout?: number; acquireTimeout?: number; maxWaiting?: number },
) {
  const { url } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, poolSize: 1, ...options })
  const other = await openDatabase({ url, poolSize: 1 })
  t.teardown(() => other.close())
  t.teardown(() => database.close())
  // The sequencer would wait in the queue too.
  const { admin } = await testApp(t, { EVENTS: 'false' }, { database })
  // The first polls of the worker can have the connection and the only place in the queue.
  await waitUntil(async () => (await admin.get(LIST)).status === 200)
  const locked = async <T>(work: () => Promise<T>): Promise<T> =>
    other.transaction(async (tx) => {
      await tx.run('lock table products in access exclusive mode')
      return work()
    })
  return { admin, locked }
}

t.test(
  'a statement that exceeds its timeout is a 503; its connection is usable again',
  { skip },
  async (t) => {
    const { admin, locked } = await lockable(t, { statementTimeout: 200 })
    isUnavailable(t, await locked(() => admin.get(LIST)))
    isUnavailable(t, await locked(() => admin.post(LIST, { sku: 'LATE', name: 'Late', price_amount: 1 })))
    t.same((await admin.get(LIST)).body.data, [], 'and nothing was done')
  },
)

t.test('a request beyond the maximum queue length gets 503 immediately', { skip }, async (t) => {
  const { admin, locked } = await lockable(t, {
    statementTimeout: 50_000,
    acquireTimeout: 40_000,
    maxWaiting: 1,
  })
  const refused: Reply[] = []
  const accepted = await locked(async () => {
    const replies = Array.from({ length: 10 }, async () => {
      const reply = await admin.get(LIST)
      if (reply.status !== 200) refused.push(reply)
      return reply
    })
    // One has the connection, one waits for it. The worker's poll can be in the place of the latter.
    await waitUntil(() => refused.length >= 8)
    return replies
  }).then((replies) => Promise.all(replies))
  t.ok(refused.length < 10, 'the others wait until the table is free')
  for (const reply of refused) isUnavailable(t, reply)
  t.equal(accepted.filter(({ status }) => status === 200).length, 10 - refused.length)
})
