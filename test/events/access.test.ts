/** Who may read which event: by role, owner, scope and credential, alike in lists, single reads and streams. */
import t from 'tap'
import type { Client } from '../helpers/app.ts'
import { testApp } from '../helpers/app.ts'
import { readStream } from '../helpers/event-streams.ts'
import { insertEvent, insertOwnedEvent, insertPlacedEvent, readFeed } from '../helpers/events.ts'

const OWNED = ['users', 'user-profiles', 'posts', 'orders', 'sessions', 'api-keys']

t.test('roles and credentials read the events that they may read', async (t) => {
  const { app, admin, base, database, person } = await testApp(t)
  const [member, other, manager] = [await person('member'), await person('member'), await person('manager')]
  const root = await person('admin')
  const limited = await person('admin', ['events:read', 'orders:write'])
  // The events of the accounts and sessions above.
  await app.events.assignAll()
  const start = await readFeed(admin)
  /** The owner and the type of each event, by the id of its resource. */
  const labels = new Map<string, string>()
  labels.set(await insertEvent(database), 'products')
  for (const [name, { id }] of Object.entries({ member, other, manager })) {
    for (const type of OWNED) {
      labels.set(await insertOwnedEvent(database, type, id), `${name} ${type}`)
    }
  }
  await app.events.assignAll()
  const all = [...labels.values()]
  const ids = new Map<string, string>()
  for (const { id, resource_id } of (await readFeed(root.bearer, '', start.cursor)).events)
    ids.set(resource_id, id)

  const check = async (name: string, client: Client, headers: Record<string, string>, expected: string[]) => {
    const { events } = await readFeed(client, '&limit=3', start.cursor)
    t.same(
      events.map(({ resource_id }) => labels.get(resource_id)),
      expected,
      `${name}: list`,
    )
    const streamed = await readStream(t, base, { headers, cursor: start.cursor }, expected.length)
    t.same(
      streamed.events.map(({ data }) => labels.get(data.resource_id)),
      expected,
      `${name}: stream`,
    )
    for (const [resourceId, label] of labels) {
      const { status } = await client.get(`/events/${ids.get(resourceId)}`)
      if (status !== (expected.includes(label) ? 200 : 403)) t.fail(`${name}: ${label} is ${status}`)
    }
  }
  const withKey = (key: string) => ({ 'x-api-key': key })
  const withToken = (token: string) => ({ authorization: `Bearer ${token}` })
  const isCredential = (label: string) => /sessions|api-keys/.test(label)
  const shared = all.filter((label) => !isCredential(label))

  await check('admin', root.bearer, withToken(root.token), all)
  await check('admin with a key', root.client, withKey(root.key), shared)
  await check(
    'manager',
    manager.bearer,
    withToken(manager.token),
    all.filter((label) => !isCredential(label) || label.startsWith('manager')),
  )
  await check('manager with a key', manager.client, withKey(manager.key), shared)
  const own = all.filter((label) => label.startsWith('member'))
  await check('member', member.bearer, withToken(member.token), own)
  await check(
    'member with a key',
    member.client,
    withKey(member.key),
    own.filter((label) => !isCredential(label)),
  )
  await check(
    'admin with the scope of orders',
    limited.client,
    withKey(limited.key),
    all.filter((label) => label.endsWith('orders')),
  )
})

t.test('the scope events:read is required', async (t) => {
  const { person } = await testApp(t)
  const { client } = await person('admin', ['products:read'])
  for (const headers of [{}, { accept: 'text/event-stream' }]) {
    const refused = await client.get('/events', headers)
    t.equal(refused.status, 403)
    t.match(refused.body.error.message, 'events:read')
  }
})

t.test('with HIDE_FORBIDDEN, an event that the caller may not read is 404', async (t) => {
  const test = await testApp(t, { HIDE_FORBIDDEN: 'true' })
  const { client } = await test.person('member')
  const id = await insertPlacedEvent(test)
  t.equal((await client.get(`/events/${id}`)).status, 404)
})
