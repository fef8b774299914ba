/** The read rule of an adopter's resource decides who gets its events, with all its conditions: lists, streams, webhooks. */
import { getTableColumns, sql } from 'drizzle-orm'
import t from 'tap'
import type { Actor } from '../../../api/src/actor/actor.ts'
import { type Access, CALLER } from '../../../api/src/rules/rules.ts'
import { events } from '../../../database/src/event-tables.ts'
import type { ResourceDefinition } from '../../../resources/src/definition/definition.ts'
import { findOwnerColumn } from '../../../resources/src/outbox/recorder.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { type Owner, testDatabase } from '../../../testing/helpers/database.ts'
import {
  explainPages,
  insertEvent,
  insertEventsOfOthers,
  openStream,
  readFeed,
} from '../../../testing/helpers/events.ts'
import { createNotesTable, notesResource, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { replaceResource, serve } from '../../../testing/helpers/serve.ts'
import { createEndpoint, startReceiver } from '../../../testing/helpers/webhooks.ts'
import { EventDecisions } from '../../src/events/decisions.ts'
import { createPageReader } from '../../src/events/page.ts'
import { buildReadableCondition, getRoleRules } from '../../src/events/readable.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

const own = [{ user_id: CALLER }] as const
const all = { admin: true, manager: true, member: own } as const
const PUBLISHED = { status: 'published' }

const withRead = (read: Access['read'], verbs: Access = {}): Access => ({
  ...{ create: all, update: all, remove: all, ...verbs },
  read: { admin: true, manager: true, ...read },
})

const [ONE, OTHER, MANAGER] = [1, 2, 3].map((n) => `00000000-0000-7000-8000-00000000000${n}`)
/** `title` is the id of the other member in the third one. */
const NOTES = [
  { user_id: ONE, title: 'Tea', status: 'draft' },
  { user_id: ONE, title: 'Tea', status: 'published' },
  { user_id: OTHER, title: ONE, status: 'draft' },
  { user_id: OTHER, title: 'Tea', status: 'published' },
]

const thanks: ResourceDefinition['operations'] = { thanks: { access: { member: [{ title: CALLER }] } } }
const ofIds: Access = { create: { ...all, member: [{ id: CALLER }] } }

/** The notes whose events the first member, the second one and a manager get. */
const CASES: Readonly<Record<string, [Access, ...expected: number[][]]>> = {
  'conditions that do not name the caller hold too, for resources that are theirs': [
    withRead({ member: [PUBLISHED], manager: [PUBLISHED] }),
    ...[[1], [3], [1, 3]],
  ],
  'all columns of a condition hold': [
    withRead({ member: [{ user_id: CALLER, ...PUBLISHED }], manager: own }),
    ...[[1], [3], []],
  ],
  'several columns that are compared with the caller hold, whichever another verb compares first': [
    withRead({ member: [{ title: CALLER }, { user_id: CALLER }] }, ofIds),
    ...[
      [0, 1, 2],
      [2, 3],
      [0, 1, 2, 3],
    ],
  ],
  'a rule for all rows is one for resources that are theirs': [
    withRead({ member: true, manager: false }),
    ...[[0, 1], [2, 3], []],
  ],
  'a column that only an own operation compares makes resources theirs too': [
    withRead({ member: true }),
    ...[
      [0, 1, 2],
      [2, 3],
      [0, 1, 2, 3],
    ],
  ],
  'without a rule for reads, no other verb shows events': [
    withRead({ manager: false }, { list: all }),
    ...[[], [], []],
  ],
}

t.test('lists, streams and webhooks decide alike by the conditions of a rule', async (t) => {
  const database = await testDatabase(t)
  for (const [name, [access, ...expected]] of Object.entries(CASES)) {
    const operations = name.includes('own operation') ? thanks : {}
    const columns = getTableColumns(notesResource.table)
    const resource = { ...notesResource, access, operations, columns, relations: {} }
    const owner = findOwnerColumn(resource)
    const ids: string[] = []
    for (const columns of NOTES) {
      const owner_id = Object.entries(columns).find(([column]) => column === owner)?.[1] ?? null
      ids.push(await insertEvent(database, { type: 'notes.created', columns, owner_id }))
    }
    await assignBatch(database, [])
    const getNotes = (found: readonly { resource_id: string }[]) =>
      found.map(({ resource_id }) => ids.indexOf(resource_id)).filter((note) => note >= 0)
    const page = { limit: 100, maxBytes: 1_000_000 }
    for (const [index, userId = ''] of [ONE, OTHER, MANAGER].entries()) {
      const role = userId === MANAGER ? 'manager' : 'member'
      const rules = getRoleRules([resource], role)
      const actor: Actor = { role, userId, credential: 'token', scopes: new Set(['*']) }
      const reader = { rules, actor }
      const readPage = createPageReader([resource])
      for (const isDescending of [false, true]) {
        const listed = getNotes((await readPage(database, { ...page, reader, isDescending })).events)
        t.same(listed.sort(), expected[index], `${name}: ${role}, list`)
      }
      const readAll = await readPage(database, page)
      const decisions = new EventDecisions(new Map())
      const streamed = readAll.events.filter((event) => decisions.canRead(reader, event))
      t.same(getNotes(streamed), expected[index], `${name}: ${role}, stream`)
      const condition = buildReadableCondition([resource], rules, sql`${userId}`)
      const delivered = await database.select().from(events).where(condition).orderBy(events.position)
      t.same(getNotes(delivered), expected[index], `${name}: ${role}, webhook`)
    }
  }
})

/** Starts an app with other rules for notes. */
async function openApp(t: Owner, access: Access) {
  const opened = await testDatabase(t)
  await createNotesTable(opened)
  const { database, explain } = explainPages(opened)
  const resources = replaceResource(resourcesWithNotes, 'notes', () => serve({ ...notesResource, access }))
  return { ...(await testApp(t, {}, { database, resources })), explain }
}

t.test('former values of a resource that was not readable are not shown, nor is its change', async (t) => {
  const access = withRead({ member: [{ user_id: CALLER, ...PUBLISHED }], manager: [PUBLISHED] })
  const { app, admin, base, person } = await openApp(t, access)
  const [member, other] = [await person('member'), await person('member')]
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
  const all = await readFeed(admin, '&type=notes.*')
  t.strictSame(all.events[1].previous, { status: 'draft', title: 'Secret' }, 'an admin sees them')
  const shown = await member.client.get(`/events/${events[0]?.id}`)
  t.strictSame(shown.body.data.previous, {})
  t.equal((await member.client.get(`/events/${all.events[0].id}`)).status, 403, 'a draft')
  t.equal((await other.client.get(`/events/${events[0]?.id}`)).status, 403, 'of another member')
})

t.test('an index has the events of each column that is compared with the caller', async (t) => {
  const test = await openApp(t, withRead({ member: [{ user_id: CALLER }, { title: CALLER }] }))
  const member = await test.person('member')
  await test.app.events.assignAll()
  await test.database.run(`create index further_column on events ((columns ->> 'title'), position)`)
  await insertEventsOfOthers(test.database, 'orders', 'notes')
  t.equal((await member.bearer.get('/events?sort=position')).status, 200)
  const plan = await test.explain()
  t.match(plan, 'events_owner_id')
  t.match(plan, 'further_column', 'as docs/adopters/adding-a-resource.md says')
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
