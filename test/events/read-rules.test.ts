/** The read rule of an adopter's resource decides who gets its events, with all its conditions: lists, streams, webhooks. */

import t, { type Test } from 'tap'
import { type Access, CALLER } from '../../plugins/access/rules.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { type Json, type Person, type TestApp, testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { explainPages, getEvents, openStream, readFeed } from '../helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { createEndpoint, readDeliveries, startReceiver } from '../helpers/webhooks.ts'

const own = [{ user_id: CALLER }] as const
const all = { admin: true, manager: true, member: own } as const

/** Starts an app with other rules for notes. */
async function openApp(t: Test, access: Access, operations: ResourceDefinition['operations'] = {}) {
  const opened = await testDatabase(t)
  await createNotesTable(opened)
  const { database, explain } = explainPages(opened)
  const resources = resourcesWithNotes.map((each) =>
    each.name === 'notes' ? { ...each, access, operations } : each,
  )
  const test = await testApp(t, {}, { database, resources })
  return { ...test, explain }
}

/** Creates notes of two members: `title` is the id of the other member in the third one. */
async function createNotes({ admin }: TestApp, one: Person, other: Person) {
  const notes = [
    { owner: one, title: 'Tea', status: 'draft' },
    { owner: one, title: 'Tea', status: 'published' },
    { owner: other, title: one.id, status: 'draft' },
    { owner: other, title: 'Tea', status: 'published' },
  ]
  const ids: string[] = []
  for (const { owner, ...fields } of notes) {
    const reply = await admin.post(`/users/${owner.id}/notes`, { ...fields, body: 'It is warm.' })
    if (reply.status !== 201) throw new Error(reply.text)
    ids.push(reply.body.data.id)
  }
  return ids
}

interface Case {
  name: string
  access: Access
  operations?: ResourceDefinition['operations']
  /** The notes whose events the first member, the second one and a manager get. */
  expected: [number[], number[], number[]]
}

const withRead = (read: Access['read'], verbs: Access = {}): Access => ({
  create: all,
  update: all,
  remove: all,
  ...verbs,
  read: { admin: true, manager: true, ...read },
})

const cases: Case[] = [
  {
    name: 'conditions that do not name the caller hold too, for resources that are theirs',
    access: withRead({ member: [{ status: 'published' }], manager: [{ status: 'published' }] }),
    expected: [[1], [3], [1, 3]],
  },
  {
    name: 'all columns of a condition hold',
    access: withRead({ member: [{ user_id: CALLER, status: 'published' }], manager: own }),
    expected: [[1], [3], []],
  },
  {
    name: 'several columns that are compared with the caller hold, whichever another verb compares first',
    access: withRead(
      { member: [{ title: CALLER }, { user_id: CALLER }] },
      { create: { ...all, member: [{ id: CALLER }] } },
    ),
    expected: [
      [0, 1, 2],
      [2, 3],
      [0, 1, 2, 3],
    ],
  },
  {
    name: 'a rule for all rows is one for resources that are theirs',
    access: withRead({ member: true, manager: false }),
    expected: [[0, 1], [2, 3], []],
  },
  {
    name: 'a column that only an own operation compares makes resources theirs too',
    access: withRead({ member: true }),
    operations: {
      thanks: {
        operationId: 'thankForNote',
        summary: 'Thank for a note',
        description: 'Thanks for a note.',
        access: { member: [{ title: CALLER }] },
        run: async (_store, note) => note,
      },
    },
    expected: [
      [0, 1, 2],
      [2, 3],
      [0, 1, 2, 3],
    ],
  },
  {
    name: 'without a rule for reads, no other verb shows events',
    access: withRead({ manager: false }, { list: all }),
    expected: [[], [], []],
  },
]

const PATH = '/events?type=notes.*,users.updated'

for (const { name, access, operations, expected } of cases) {
  t.test(name, async (t) => {
    const test = await openApp(t, access, operations)
    const { app, admin, base, person } = test
    const [one, other, manager] = [await person('member'), await person('member'), await person('manager')]
    const people = [one, other, manager]
    await app.events.assignAll()
    const { cursor } = (await admin.get(`${PATH}&sort=position`)).body.pagination
    const fields = { event_types: ['notes.*'] }
    const endpoint = await createEndpoint(manager.bearer, 'https://example.com', fields)
    await app.webhooks.pause()
    const open = async ({ token }: Person, from?: string) =>
      openStream(
        t,
        { app, base },
        { headers: { authorization: `Bearer ${token}` }, path: PATH, cursor: from },
      )
    const live = await Promise.all(people.map((each) => open(each)))
    const notes = await createNotes(test, one, other)
    // The last event of each stream: members read that of their own user, managers those of all.
    for (const { id } of people) await admin.patch(`/users/${id}`, { name: 'Ada' })
    await app.events.assignAll()
    const { events } = await readFeed(admin, '&type=notes.*')
    const getNotes = (each: readonly Json[]) =>
      each.map(({ resource_id }) => notes.indexOf(resource_id)).filter((note) => note >= 0)

    for (const [index, person] of people.entries()) {
      const wanted = expected[index] ?? []
      const page = async (query: string) =>
        getNotes(getEvents(await person.bearer.get(`/events?type=notes.*${query}`)))
      t.same(await page('&sort=position'), wanted, 'list in the order of the feed')
      t.same((await page('')).reverse(), wanted, 'list of the newest first')
      for (const { id, resource_id } of events) {
        const { status } = await person.bearer.get(`/events/${id}`)
        t.equal(status, wanted.includes(notes.indexOf(resource_id)) ? 200 : 403)
      }
      for (const stream of [live[index], await open(person, cursor)]) {
        const streamed = await stream?.waitForEvents(wanted.length + (person === manager ? 3 : 1))
        t.same(getNotes(streamed?.map(({ data }) => data) ?? []), wanted, 'stream')
      }
    }
    const delivered = (await readDeliveries(manager.bearer, endpoint.id)).map(({ event_id }) => event_id)
    t.same(
      getNotes(events.filter(({ id }) => delivered.includes(id))),
      expected[2],
      'webhooks of the manager',
    )
  })
}

t.test('former values of a resource that was not readable are not shown, nor is its change', async (t) => {
  const published = { status: 'published' }
  const access = withRead({ member: [{ user_id: CALLER, ...published }], manager: [published] })
  const { app, admin, base, person } = await openApp(t, access)
  const member = await person('member')
  const receiver = await startReceiver(t)
  await createEndpoint((await person('manager')).bearer, receiver.url, { event_types: ['notes.*'] })
  const headers = { 'x-api-key': member.key }
  const stream = await openStream(t, { app, base }, { headers, path: '/events?type=notes.*' })
  const path = `/users/${member.id}/notes`
  const { id } = (await admin.post(path, { title: 'Secret', body: 'It is warm.' })).body.data
  for (const change of [
    { status: 'published', title: 'Tea' },
    { title: 'Green tea' },
    { status: 'draft', title: 'Secret' },
    { status: 'published', title: 'Black tea' },
  ])
    t.equal((await admin.patch(`${path}/${id}`, change)).status, 200)
  t.equal((await admin.delete(`${path}/${id}`)).status, 204)
  await app.events.assignAll()
  const expected = [
    ['notes.updated', {}],
    ['notes.updated', { title: 'Tea' }],
    ['notes.updated', {}],
    ['notes.deleted', null],
  ]
  const { events } = await readFeed(member.client, '&type=notes.*')
  const streamed = (await stream.waitForEvents(expected.length)).map(({ data }) => data)
  const sent = (await receiver.waitFor(expected.length)).map(({ body }) => body.data)
  for (const [name, each] of Object.entries({ list: events, stream: streamed, webhooks: sent }))
    t.strictSame(
      each.sort((a, b) => a.position - b.position).map(({ type, previous }) => [type, previous]),
      expected,
      name,
    )
  t.strictSame((await member.client.get(`/events/${events[0]?.id}`)).body.data.previous, {})
  const all = await readFeed(admin, '&type=notes.*')
  t.strictSame(all.events[1].previous, { status: 'draft', title: 'Secret' }, 'an admin sees them')
})

t.test('an index has the events of each column that is compared with the caller', async (t) => {
  const test = await openApp(t, withRead({ member: [{ user_id: CALLER }, { title: CALLER }] }))
  const member = await test.person('member')
  await test.app.events.assignAll()
  await test.database.run(
    `insert into events (type, resource_type, resource_id, revision, columns, credential, position, owner_id)
     select kind || '.created', kind, gen_random_uuid(), 1, '{}', 'system', 1000 + n, gen_random_uuid()
     from generate_series(1, 5000) as n, lateral (select case when n % 500 = 0 then 'notes' else 'orders' end as kind) as k`,
  )
  await test.database.run('update event_feed set last_position = 6000')
  await test.database.run(`create index further_column on events ((columns ->> 'title'), position)`)
  await test.database.run('analyze events')
  t.equal((await member.bearer.get('/events?sort=position')).status, 200)
  const plan = await test.explain()
  t.match(plan, 'events_owner_id')
  t.match(plan, 'further_column', 'as docs/adding-a-resource.md says')
  t.notMatch(plan, 'Seq Scan","Parallel Aware":false,"Async Capable":false,"Relation Name":"events"')
})

t.test('a rule that events cannot decide stops the start', async (t) => {
  for (const [column, value] of [
    ['search', 'tea'],
    ['published_at', '2026-01-01'],
  ] as const)
    await t.rejects(openApp(t, withRead({ manager: [{ [column]: value }] })), {
      message: new RegExp(`notes: access to read compares "${column}"`),
    })
})
