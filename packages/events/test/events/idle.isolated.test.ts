/** An idle process looks for work of other processes less often, and for its own as soon as there is some. */
import t, { type Test } from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { insertEvent, openStream } from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { getRunningTime, waitUntil } from '../../../testing/helpers/time.ts'
import { createEndpoint, startReceiver, waitForDeliveries } from '../../../testing/helpers/webhooks.ts'

const HOUR_MS = 3_600_000
/** An idle process polls every 4 s: what it does in less time did not wait for such a poll. */
const EARLY_MS = 2_000

/** Parts of the statements that an idle process repeats: of the outbox, the feed, and the work of all kinds. */
const POLLS = ['as "age" from', 'as "from_id" from', 'as due_in_ms'] as const

/** Starts an app whose clock a test can move. */
async function start(t: Test) {
  const sent: { text: string; at: number }[] = []
  const database = intercept(await testDatabase(t), (text) => void sent.push({ text, at: performance.now() }))
  const take = () => sent.splice(0)
  const api = await testApp(t, {}, { database })
  /** Resolves when each statement was sent again. */
  const waitForPolls = async () => {
    take()
    const statements: string[] = []
    await waitUntil(() => {
      statements.push(...take().map(({ text }) => text))
      return POLLS.every((part) => statements.some((text) => text.includes(part)))
    })
  }
  return {
    api,
    take,
    /** Waits until the process knows that nothing happens, then lets an hour pass, and the polls that were due. */
    async rest() {
      await api.app.events.assignAll()
      await waitForPolls()
      const now = performance.now.bind(performance)
      t.intercept(performance, 'now', { value: () => now() + HOUR_MS })
      await waitForPolls()
    },
  }
}

t.test('an idle process sends few statements', async (t) => {
  const { take, rest } = await start(t)
  await rest()
  const statements = take()
  const find = (part: string) => statements.filter(({ text }) => text.includes(part))
  const [first] = POLLS
  await waitUntil(() => {
    statements.push(...take())
    return find(first).length >= 3
  })
  // By the times at which they were sent. They are 4 s apart; a busy machine may send the first one late.
  const [begin = 0, , end = 0] = find(first).map(({ at }) => at)
  t.ok(end - begin > 5_000, `two polls follow in ${end - begin} ms`)
  const between = statements.filter(({ at }) => at > begin && at <= end)
  for (const part of POLLS) {
    const count = between.filter(({ text }) => text.includes(part)).length
    t.ok(count <= 3, `${count} of ${part}`)
  }
  // Two for metrics. Every 500 ms it would be sixteen of each.
  t.ok(between.length <= 3 * POLLS.length + 2, between.map(({ text }) => text).join('\n'))
})

t.test('a commit of another process reaches a stream of an idle one within a second', async (t) => {
  const { api, rest } = await start(t)
  await rest()
  const stream = await openStream(t, api, { headers: { 'x-api-key': ADMIN_KEY } })
  const opened = getRunningTime()
  await insertEvent(api.database)
  await stream.waitForEvents(1)
  const elapsed = getRunningTime() - opened
  t.ok(elapsed < EARLY_MS, `${elapsed} ms`)
})

t.test('an idle process sends a delivery and a replay that it creates soon', async (t) => {
  const { api, rest } = await start(t)
  const receiver = await startReceiver(t)
  const { id } = await createEndpoint(api.admin, receiver.url)
  await api.admin.post('/products', { sku: 'TEA-1', name: 'Tea', price_amount: 5 })
  await waitForDeliveries(api.admin, id, ([first]) => first?.status === 'succeeded')
  const since = new Date(Date.now() - HOUR_MS).toISOString()
  for (const [path, body] of [
    ['deliveries', { test: true }],
    ['replays', { since, status: 'all' }],
  ] as const) {
    await rest()
    const count = receiver.received.length
    const { status } = await api.admin.post(`/webhook-endpoints/${id}/${path}`, body)
    t.equal(status, 201)
    const created = getRunningTime()
    await receiver.waitFor(count + 1)
    const elapsed = getRunningTime() - created
    t.ok(elapsed < EARLY_MS, `${path}: ${elapsed} ms`)
  }
})
