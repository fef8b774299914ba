/** The client package follows, lists and receives the events of the real server, also over a restart of it. */
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../testing/helpers/app.ts'
import { findFreePort } from '../../testing/helpers/network.ts'
import { createServerSettings, startServer } from '../../testing/helpers/process.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import { startReceiver } from '../../testing/helpers/webhooks.ts'
import {
  createClient,
  NetworkError,
  ServerError,
  type StreamedEvent,
  type Tokens,
  verifyWebhook,
} from '../src/index.ts'

/** Long enough for a server that starts on a busy machine. */
const PATIENCE_MS = 120_000

const createBody = (number: number) => ({ name: 'Ada', email: `ada-${number}@example.com` })

/** Returns the cursor of a page that has no number. */
const getCursor = (pagination: object) => String('cursor' in pagination && pagination.cursor)

/**
 * Reads a number of events of a stream.
 * @param items gets them as they arrive
 */
async function read(
  stream: AsyncIterable<StreamedEvent>,
  count: number,
  items: StreamedEvent[] = [],
): Promise<StreamedEvent[]> {
  for await (const item of stream) {
    items.push(item)
    if (items.length === count) break
  }
  return items
}

t.test('a stream has each change once, also if the server restarts while it is written to', async (t) => {
  const COUNT = 30
  const settings = {
    ...(await createServerSettings(t)),
    PORT: String(await findFreePort()),
    ADMIN_API_KEY: ADMIN_KEY,
  }
  const { child, ended, url: baseUrl } = await startServer(t, settings)
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const filter = { type: 'users.*' } as const
  // A stream begins after the creation of the first admin, which gets its position later. From a cursor, the test does
  // not have to wait until it is open.
  const readPage = () => client.events.list({ ...filter, sort: 'position' }).page()
  await waitUntil(async () => (await readPage()).data.length > 0, PATIENCE_MS)
  const { pagination } = await readPage()
  const losses: string[] = []
  const stream = client.events.stream(
    { ...filter, cursor: getCursor(pagination) },
    { deadlineMs: PATIENCE_MS, onReconnect: ({ name }) => losses.push(name) },
  )
  const items: StreamedEvent[] = []
  const reading = read(stream, COUNT, items)

  /** Creates a user, however often the server is away. */
  const create = async (number: number): Promise<string> => {
    for (;;) {
      try {
        const { id } = await client.users.create(createBody(number), { idempotencyKey: `ada-${number}` })
        return id
      } catch (error) {
        if (!(error instanceof NetworkError || error instanceof ServerError)) throw error
      }
    }
  }
  let restarted: Promise<unknown> | undefined
  const ids: string[] = []
  for (let number = 0; number < COUNT; number++) {
    ids.push(await create(number))
    if (number !== COUNT / 2) continue
    // The stream is open, so that it is lost.
    await waitUntil(() => items.length > 0, PATIENCE_MS)
    child.kill('SIGTERM')
    restarted = ended.then(() => startServer(t, settings))
  }
  await restarted
  await reading
  t.same(
    items.map(({ event }) => event.resource_id),
    ids,
  )
  t.ok(losses.length > 0, losses.join())

  // Another program goes on after the cursor that this one has stored.
  const rest = client.events.stream({ ...filter, cursor: items[9]?.cursor })
  t.same(await read(rest, COUNT - 10), items.slice(10))
})

t.test('events are listed and read', async (t) => {
  const { base: baseUrl, app, adminId } = await testApp(t)
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const created = await client.users.create(createBody(100))
  await client.users.update(created.id, { name: 'Ada King' })
  await app.events.assignAll()
  const query = { resource_id: created.id, sort: 'position' } as const
  const events = await client.events.list(query).toArray()
  t.match(events, [
    { type: 'users.created', revision: 1, data: created, previous: null },
    { type: 'users.updated', revision: 2, previous: { name: 'Ada' }, actor_id: adminId },
  ])
  t.same(await client.events.get(events[0]?.id ?? ''), events[0])
  const { pagination, hasNext } = await client.events.list(query).page()
  t.notOk(hasNext)
  t.not(getCursor(pagination), 'null', 'polling goes on from the cursor of the last page')
})

t.test('an endpoint is created, and its deliveries are verified', async (t) => {
  const { base: baseUrl, person } = await testApp(t)
  const receiver = await startReceiver(t)
  const { id: userId, token: accessToken, sessionId } = await person('manager')
  const renewAt = Number.POSITIVE_INFINITY
  const tokens: Tokens = { accessToken, refreshToken: '', sessionId, userId, renewAt }
  const client = createClient({ baseUrl, tokenStore: { get: () => tokens, set: () => undefined } })
  const endpoint = await client.webhookEndpoints.create({
    url: receiver.url,
    event_types: ['user-profiles.*'],
  })
  t.equal((await client.webhookEndpoints.get(endpoint.id)).secret, null)
  const profile = await client.userProfiles.create({ display_name: 'Ada' })
  const [webhook] = await receiver.waitFor(1)
  const { text: body = '', headers = {} } = webhook ?? {}
  const { type, data } = await verifyWebhook({ body, headers, secret: String(endpoint.secret) })
  t.equal(type, 'user-profiles.created')
  t.match(data, { type: 'user-profiles.created', resource_id: profile.id, data: { display_name: 'Ada' } })
  t.equal(headers['webhook-id'], data.id)

  const deliveries = client.webhookEndpoints.deliveries(endpoint.id)
  await waitUntil(async () => (await deliveries.list({ status: 'succeeded' }).toArray()).length === 1)
  const again = await deliveries.create({ event_id: data.id })
  t.match(await deliveries.get(again.id), { event_id: data.id, event_type: 'user-profiles.created' })
  const [, repeated] = await receiver.waitFor(2)
  t.equal(repeated?.headers['webhook-id'], data.id)

  const { data: rotated, status } = await client.webhookEndpoints.createSecret(endpoint.id).withResponse()
  t.equal(status, 201)
  t.match(rotated.secret, /^whsec_/)

  const replays = client.webhookEndpoints.replays(endpoint.id)
  const since = new Date(Date.now() - 3_600_000).toISOString()
  const { id } = await replays.create({ since, status: 'all' })
  await waitUntil(async () => (await replays.get(id)).completed_at !== null)
  t.match(await replays.list().toArray(), [{ id, total: 1, sent: 1 }])
})
