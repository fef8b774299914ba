/** Rules over relations decide who gets events: by the related rows that there are when the events are read or sent. */
import t, { type Test } from 'tap'
import { type Json, type Person, testApp } from '../../../testing/helpers/app.ts'
import {
  explainPages,
  getEvents,
  insertEventsOfOthers,
  openStream,
  readFeed,
} from '../../../testing/helpers/events.ts'
import {
  createOrganization,
  createOrganizations,
  createProject,
  removeMember,
} from '../../../testing/helpers/organizations.ts'
import { createEndpoint, readDeliveries, startReceiver } from '../../../testing/helpers/webhooks.ts'

const PATH = '/events?type=projects.*'

const describe = ({ type, previous }: Json) => [type, previous && Object.keys(previous).sort()]

const { database: opened, resources } = await createOrganizations(t)
const { database, explain } = explainPages(opened)
const test = await testApp(t, {}, { database, resources })
const { admin, app, person } = test

const open = (t: Test, { key }: Person, cursor?: string) =>
  openStream(t, test, { headers: { 'x-api-key': key }, path: PATH, cursor })

async function list(person: Person) {
  await app.events.assignAll()
  return (await readFeed(person.client, '&type=projects.*')).events
}

t.test('members get the events of their organizations: in lists, single reads and streams', async (t) => {
  const [ada, bob, eve] = [await person('member'), await person('member'), await person('member')]
  const one = await createOrganization(ada, [bob])
  const two = await createOrganization(eve, [ada])
  await app.events.assignAll()
  const { cursor } = (await admin.get(`${PATH}&sort=position`)).body.pagination
  const live = { ada: await open(t, ada), bob: await open(t, bob), eve: await open(t, eve) }

  const project = await createProject(ada.client, one)
  const path = `/projects/${project.id}`
  await bob.client.patch(path, { name: 'Gemini' })
  await ada.client.patch(path, { organization_id: two, name: 'Vostok' })
  await ada.client.patch(path, { name: 'Soyuz' })
  await eve.client.delete(path)
  const last = await createProject(ada.client, one)
  await createProject(eve.client, two)

  const [created, updated, moved] = [
    ['projects.created', null],
    ['projects.updated', ['name']],
    ['projects.updated', ['name', 'organization_id']],
  ]
  const expected = {
    ada: [created, updated, moved, updated, ['projects.deleted', null], created, created],
    bob: [created, updated, created],
    // The values before are those of a row that was not hers to read.
    eve: [['projects.updated', []], updated, ['projects.deleted', null], created],
  }
  const people = { ada, bob, eve }
  await app.events.assignAll()
  const { events: all } = await readFeed(admin, '&type=projects.*')
  t.equal(all.length, 7)
  for (const name of ['ada', 'bob', 'eve'] as const) {
    const { client } = people[name]
    const own = await list(people[name])
    t.strictSame(own.map(describe), expected[name], `${name}: list`)
    const ids = own.map(({ id }) => id)
    const newest = getEvents(await client.get(PATH)).map(({ id }) => id)
    t.same(newest.reverse(), ids, `${name}: newest first`)
    t.equal(getEvents(await client.get('/events?resource_type=projects&limit=1')).length, 1)
    const ofRow = await client.get(`/events?resource_id=${last.id}`)
    t.equal(getEvents(ofRow).length, name === 'eve' ? 0 : 1)
    for (const { id } of all) {
      const { status, body } = await client.get(`/events/${id}`)
      const listed = own.find((each) => each.id === id)
      t.equal(status, listed ? 200 : 403)
      if (listed) t.same(body.data.previous, listed.previous)
    }
    for (const stream of [live[name], await open(t, people[name], cursor)]) {
      const streamed = (await stream.waitForEvents(own.length)).map(({ data }) => describe(data))
      t.strictSame(streamed, expected[name], `${name}: stream`)
    }
    const exported = await client.get(`${PATH}&sort=position`, { accept: 'application/x-ndjson' })
    t.equal(exported.text.trim().split('\n').length, own.length, `${name}: export`)
  }
})

t.test('a membership that ends hides all events, and streams go on without them', async (t) => {
  const [ada, bob] = [await person('member'), await person('member')]
  const one = await createOrganization(ada, [bob])
  const first = await createProject(ada.client, one)
  await app.events.assignAll()
  const [stream, other] = [await open(t, bob), await open(t, ada)]
  const second = await createProject(ada.client, one)
  await app.events.assignAll()
  const [event] = await stream.waitForEvents(1)
  t.equal(event?.data.resource_id, second.id)
  await removeMember(ada.client, one, bob.id)
  t.same(await list(bob), [])
  t.equal((await bob.client.get(`/events/${event?.data.id}`)).status, 403)
  await ada.client.patch(`/projects/${first.id}`, { name: 'After' })
  await app.events.assignAll()
  await other.waitForEvents(2)
  await stream.waitForComment()
  t.equal(stream.events.length, 1)
  const again = await ada.client.post('/memberships', { organization_id: one, user_id: bob.id })
  t.equal(again.status, 201)
  t.equal((await list(bob)).length, 3, 'a new member sees the events of the organization')
  await ada.client.patch(`/projects/${first.id}`, { name: 'Again' })
  await app.events.assignAll()
  t.equal((await stream.waitForEvents(2)).at(-1)?.data.data.name, 'Again')
})

t.test('webhooks are sent for what the owner of the endpoint may read at that moment', async (t) => {
  const [ada, boss] = [await person('member'), await person('manager')]
  const [one, two] = [await createOrganization(ada, []), await createOrganization(ada, [])]
  const membership = { organization_id: one, user_id: boss.id }
  t.equal((await ada.client.post('/memberships', membership)).status, 201)
  const receiver = await startReceiver(t)
  const replay = { since: new Date().toISOString(), status: 'all' }
  const fields = { event_types: ['projects.*'] }
  const endpoint = await createEndpoint(boss.bearer, receiver.url, fields)
  const closed = { status: 'closed' }
  const mine = await createProject(ada.client, one, closed)
  await createProject(ada.client, two, closed)
  const open = await createProject(ada.client, two)
  await app.events.assignAll()
  const sent = (await receiver.waitFor(2)).map(({ body }) => body.data.resource_id)
  t.same(sent.sort(), [mine.id, open.id].sort())

  // Delivered to the queue, but not sent yet.
  await app.work.pause()
  await ada.client.patch(`/projects/${mine.id}`, { name: 'Two' })
  await app.events.assignAll()
  const queued = await readDeliveries(boss.bearer, endpoint.id)
  t.equal(queued.length, 3)
  const path = `/webhook-endpoints/${endpoint.id}/replays`
  t.match((await boss.bearer.post(path, replay)).body.data, { total: 3 })
  const [event] = getEvents(await admin.get(`/events?resource_id=${mine.id}`))
  const deliveries = `/webhook-endpoints/${endpoint.id}/deliveries`
  const deliver = () => boss.bearer.post(deliveries, { event_id: event.id })
  t.equal((await deliver()).status, 201)
  await removeMember(ada.client, one, boss.id)
  t.equal((await deliver()).status, 422)
  t.match((await boss.bearer.post(path, replay)).body.data, { total: 1 })
})

t.test('an index has the events of the organizations of a member', async (t) => {
  const ada = await person('member')
  const one = await createOrganization(ada)
  await createProject(ada.client, one)
  await app.events.assignAll()
  await insertEventsOfOthers(database, 'projects')
  for (const query of ['', '&sort=position', '&type=projects.*']) {
    const reply = await ada.client.get(`/events?resource_type=projects,organizations,memberships${query}`)
    t.ok(getEvents(reply).some(({ type }) => type === 'projects.created'))
    const plan = await explain()
    t.match(plan, 'events_owner_id')
  }
})
