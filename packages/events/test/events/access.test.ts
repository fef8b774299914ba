/** Who may read which event: by role, owner, scope and credential, alike in lists, single reads and streams. */
import t from 'tap'
import { type Client, type Json, type Person, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import {
  insertEvent,
  insertOwnedEvent,
  insertPlacedEvent,
  readFeed,
  readStream,
} from '../../../testing/helpers/events.ts'

const OWNED = ['users', 'user-profiles', 'posts', 'orders', 'sessions', 'api-keys']

const database = await createSharedDatabase(t)
const { app, admin, base, person } = await testApp(t, {}, { database })

t.test('roles and credentials read the events that they may read', async (t) => {
  const [member, other, manager] = [await person('member'), await person('member'), await person('manager')]
  const root = await person('admin')
  const limited = await person('admin', ['events:read', 'orders:write'])
  // The events of the accounts and sessions above.
  await app.events.assignAll()
  const start = await readFeed(admin)
  /** The owner and the type of each event, by the id of its resource. */
  const labels = new Map<string, string>()
  labels.set(await insertEvent(database), 'products')
  for (const [name, { id }] of Object.entries({ member, other, manager }))
    for (const type of OWNED) labels.set(await insertOwnedEvent(database, type, id), `${name} ${type}`)
  await app.events.assignAll()
  const all = [...labels.values()]
  const { events: inserted } = await readFeed(root.bearer, '', start.cursor)

  const check = async (name: string, client: Client, headers: Record<string, string>, expected: string[]) => {
    const getLabels = (events: Json[]) => events.map(({ resource_id }) => labels.get(resource_id))
    const { events } = await readFeed(client, '&limit=3', start.cursor)
    t.same(getLabels(events), expected, `${name}: list`)
    const streamed = await readStream(t, { base }, { headers, cursor: start.cursor }, expected.length)
    t.same(getLabels(streamed.events.map(({ data }) => data)), expected, `${name}: stream`)
    for (const { id, resource_id } of inserted) {
      const label = labels.get(resource_id) ?? ''
      const { status } = await client.get(`/events/${id}`)
      if (status !== (expected.includes(label) ? 200 : 403)) t.fail(`${name}: ${label} is ${status}`)
    }
  }
  const byKey = ({ client, key }: Person): [Client, Record<string, string>] => [client, { 'x-api-key': key }]
  const byToken = ({ bearer, token }: Person): [Client, Record<string, string>] => [
    bearer,
    { authorization: `Bearer ${token}` },
  ]
  const isCredential = (label: string) => /sessions|api-keys/.test(label)
  const shared = all.filter((label) => !isCredential(label))
  const own = all.filter((label) => label.startsWith('member'))
  const managed = all.filter((label) => !isCredential(label) || label.startsWith('manager'))
  const ownShared = own.filter((label) => !isCredential(label))
  const orders = all.filter((label) => label.endsWith('orders'))

  await check('admin', ...byToken(root), all)
  await check('admin with a key', ...byKey(root), shared)
  await check('manager', ...byToken(manager), managed)
  await check('manager with a key', ...byKey(manager), shared)
  await check('member', ...byToken(member), own)
  await check('member with a key', ...byKey(member), ownShared)
  await check('admin with the scope of orders', ...byKey(limited), orders)
})

t.test('the scope events:read is required', async (t) => {
  const { client } = await person('admin', ['products:read'])
  for (const headers of [{}, { accept: 'text/event-stream' }]) {
    const refused = await client.get('/events', headers)
    t.equal(refused.status, 403)
    t.match(refused.body.error.message, 'events:read')
  }
})

t.test('with HIDE_FORBIDDEN, an event that the caller may not read is 404', async (t) => {
  const test = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database })
  const { client } = await test.person('member')
  t.equal((await client.get(`/events/${await insertPlacedEvent(test)}`)).status, 404)
})
