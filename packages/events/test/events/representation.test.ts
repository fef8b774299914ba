/** What an event shows: the resource after the change and the former values, in each version, and never a secret. */
import t from 'tap'
import { versions } from '../../../docs/test/version-3/versions.ts'
import { ADMIN_KEY, type Client, type Json, testApp } from '../../../testing/helpers/app.ts'
import { getEvents, openStream, readFeed } from '../../../testing/helpers/events.ts'
import { createEndpoint, startReceiver } from '../../../testing/helpers/webhooks.ts'

const PASSWORD = 'correct horse battery'
const SECRETS =
  /argon2|scrypt|password_hash|key_hash|refresh_hash|secret_box|whsec_|rak_[\w-]{20}|correct horse/

const { admin, anybody, app, base, person } = await testApp(t, {}, { versions })
/** Closes streams directly before the app: `fetch` replaces a connection that is aborted, and a shutdown waits for it. */
const streamOwner = t

/** Returns the events of a resource, the oldest first. */
async function readEvents(client: Client, version: number, resourceId: string): Promise<Json[]> {
  await app.events.assignAll()
  const page = await client.get(`/v${version}/events?sort=position&resource_id=${resourceId}`)
  if (page.status !== 200) throw new Error(page.text)
  return getEvents(page)
}

t.test('data is what a read of the resource returned after the change, in each version', async (t) => {
  const body = { sku: 'TEA-1', name: 'Tea', price_amount: 500, stock: 10, status: 'active' }
  const { id } = (await admin.post('/v1/products', body)).body.data
  /** The resource after each change, by version. */
  const reads: Json[][] = [[], [], []]
  const read = async () => {
    for (const [index, each] of reads.entries())
      each.push((await admin.get(`/v${index + 1}/products/${id}`)).body.data)
  }
  await read()
  for (const change of [{ stock: 4 }, { name: 'Green tea', description: 'From Uji' }]) {
    await admin.patch(`/v1/products/${id}`, change)
    await read()
  }
  await admin.delete(`/v1/products/${id}`)
  const types = ['products.created', 'products.updated', 'products.updated', 'products.deleted']
  const flat = [null, { stock: 10 }, { name: 'Tea', description: null }, null]
  const renamed = [null, {}, { title: 'Tea', description: null, label: 'TEA-1 Tea' }, null]
  for (const [index, [created, restocked, last]] of reads.entries()) {
    const events = await readEvents(admin, index + 1, id)
    const previous = index === 2 ? renamed : flat
    t.strictSame(
      events.map((event) => [event.type, event.revision, event.data, event.previous]),
      [created, restocked, last, last].map(({ links: _, ...data }, i) => [
        types[i],
        i + 1,
        data,
        previous[i],
      ]),
      `version ${index + 1}`,
    )
  }
})

t.test('data has no included resources, also if the collection can include some', async (t) => {
  const { id } = (await admin.post('/v1/users', { name: 'Ada', email: 'ada@example.com' })).body.data
  const [first] = await readEvents(admin, 1, id)
  const [second] = await readEvents(admin, 2, id)
  t.strictSame(first.data, (await admin.get(`/v1/users/${id}`)).body.data)
  t.notOk('relationships' in second.data || 'included' in second.data)
})

t.test('secrets are in no list, read, stream or webhook', async (t) => {
  const receiver = await startReceiver(t)
  await app.events.assignAll()
  const { cursor } = await readFeed(admin)
  const stream = await openStream(streamOwner, { base }, { headers: { 'x-api-key': ADMIN_KEY }, cursor })
  const root = await person('admin')
  const endpoint = await createEndpoint(root.bearer, receiver.url, { event_types: ['*'] })
  const email = 'grace@example.com'
  const { id } = (await admin.post('/users', { name: 'Grace', email, password: PASSWORD })).body.data
  const grant = { grant_type: 'password', email, password: PASSWORD }
  const tokens = (await anybody.post('/tokens', grant)).body.data
  const bearer = { authorization: `Bearer ${tokens.access_token}` }
  const { key } = (await anybody.post('/api-keys', { name: 'Export', scopes: ['*'] }, bearer)).body.data
  const changed = { password: 'another horse battery', current_password: PASSWORD }
  t.equal((await anybody.patch(`/users/${id}`, changed, bearer)).status, 200)
  const { secret } = (await root.bearer.post(`/webhook-endpoints/${endpoint.id}/secrets`, {})).body.data

  await app.events.assignAll()
  const { events } = await readFeed(admin, '', cursor)
  await stream.waitForEvents(events.length)
  const begin = events.findIndex(({ resource_id }) => resource_id === endpoint.id)
  const received = await receiver.waitFor(events.length - begin)
  const texts = [events, stream.events, received].map((each) => JSON.stringify(each))
  for (const text of texts) {
    t.match(text, 'users.updated')
    t.match(text, 'webhook-endpoints.updated')
    t.notMatch(text, SECRETS)
    for (const each of [key, endpoint.secret, secret, tokens.refresh_token]) t.notOk(text.includes(each))
  }
  const updates = events.filter(({ type }) => /^(users|webhook-endpoints)\.updated$/.test(type))
  const previous = updates.map((each) => each.previous)
  t.same(previous, [{}, {}], 'nothing is shown of a new password or secret')
  await root.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})

t.test('a session is current only for its own reader', async (t) => {
  const [first, second] = [await person('member'), await person('admin')]
  const find = async (client: Client) => (await readEvents(client, 1, first.sessionId))[0]?.data.current
  t.equal(await find(first.bearer), true)
  t.equal(await find(second.bearer), false)
})
