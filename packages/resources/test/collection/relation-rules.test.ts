/** Rules over relations hold wherever rules do: in lists, writes, includes, batches, files and replays. A model has the rest. */
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { Id, Text } from '../../../api/src/schemas/types.ts'
import { common, text } from '../../../database/src/columns.ts'
import { users } from '../../../database/src/user-tables.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import {
  createOrganization,
  createOrganizations,
  createProject,
  projects,
  removeMember,
} from '../../../testing/helpers/organizations.ts'
import { createKeyHeader, getIds, getViolations, isReplayed } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { describeRule } from '../../src/openapi/operations.ts'
import { operation } from '../../src/routes/operation.ts'
import type { OwnRoutes } from '../../src/routes/own-routes.ts'
import { define } from './adopted.ts'

const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over projects',
  async plugin(app) {
    app.get(
      '/reports/projects',
      operation({
        ...{ access: 'projects:list', summary: 'Count projects', description: 'Counts.' },
        run: async ({ getReadable }) => ({
          count: await app.database.$count(projects, getReadable(projects)),
        }),
      }),
    )
  },
}

/** With a rule of columns alone, and with one that has a path too. */
const ownDraft = { owner_id: CALLER, status: 'draft' } as const
const papers = [ownDraft, { ...ownDraft, 'owner.status': 'active' }].map((rule, i) => {
  const owner_id = uuid()
    .notNull()
    .references(() => users.id)
  const writers = { admin: true, member: [rule] }
  return define(
    {
      ...{ name: `papers-${i}`, singular: `Paper${i}` },
      table: pgTable(`papers_${i}`, { ...common(), owner_id, status: text().notNull() }),
      fields: { owner_id: Id('The owner'), status: Text({ examples: ['draft'] }) },
    },
    {
      access: { read: { admin: true, member: true }, create: writers, update: writers },
      relations: { owner: { to: users, local: 'owner_id', many: false, foreign: 'id' } },
    },
  )
})

const { database, resources: shared } = await createOrganizations(t)
for (const { table } of papers) await createTable(database, table)
const resources = [...shared, ...papers.map((each) => serve(each))]
const { admin, person } = await testApp(t, {}, { database, resources, routes: [reports] })
const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database, resources })

/** Two organizations: one of Ada, with Bob as a member, and one of Eve, with a project of each. */
async function createTwo() {
  const [ada, bob, eve] = [await person('member'), await person('member'), await person('member')]
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(eve)]
  const [mine, other] = [await createProject(ada.client, one), await createProject(eve.client, two)]
  return { ada, bob, eve, one, two, mine, other }
}
const patch = (id: string, body: object) => ({ method: 'PATCH', path: `/projects/${id}`, body })
const post = (path: string, body: object) => ({ method: 'POST', path, body })

t.test('members see, change and delete what belongs to their organizations, until they leave', async (t) => {
  const { ada, bob, eve, one, two, mine, other } = await createTwo()
  const closed = await createProject(ada.client, one, { status: 'closed' })
  const manager = await person('manager')
  await ada.client.post('/memberships', { organization_id: one, user_id: manager.id })
  const memo = (await ada.client.post(`/organizations/${one}/memos`, { name: 'Memo' })).body.data
  const task = (await bob.client.post('/tasks', { project_id: closed.id, name: 'Task' })).body.data
  const hidden = (await eve.client.post('/tasks', { project_id: other.id, name: 'Task' })).body.data
  const projectIds = `project_id=${closed.id},${other.id}`
  const stranger = await person('manager')
  for (const [client, path, expected] of [
    [bob.client, '/projects?page=1', [closed.id, mine.id]],
    [bob.client, `/projects?organization_id=${two}`, []],
    [manager.client, '/projects?limit=3', [closed.id, other.id, mine.id]],
    [bob.client, '/organizations', [one]],
    [bob.client, `/organizations/${one}/memos`, [memo.id]],
    [eve.client, `/organizations/${one}/memos`, []],
    [bob.client, '/tasks?project.status=closed&page=1', [task.id]],
    [eve.client, '/tasks', [hidden.id]],
    // A filter by what the manager may not read would show it.
    [stranger.client, `/tasks?${projectIds}&project.status=closed`, []],
    [stranger.client, `/tasks?${projectIds}&project.status=open`, [hidden.id]],
  ] as const)
    t.same(getIds(await client.get(path)), expected, path)
  t.match((await bob.client.get('/projects?page=1&limit=1')).body.pagination, { total: 2, total_pages: 2 })
  const included = (await stranger.client.get(`/tasks?${projectIds}&include=project`)).body.data
  const shown = included.flatMap(({ project }: Json) => (project ? [project.id] : []))
  t.same([included.length, shown], [2, [other.id]])
  const organization = await bob.client.get(`/organizations/${one}?include=projects,memberships`)
  t.match(organization.body.data, { projects: { length: 2 }, memberships: { length: 3 } })

  const path = `/projects/${mine.id}`
  const body = { organization_id: one, lead_id: bob.id, name: 'Two', status: 'open' }
  const read = (await bob.client.get(path)).body.data
  const refused: [name: string, Client, method: string, path: string, body?: object][] = [
    ['a stranger', eve.client, 'GET', path],
    ['a stranger', eve.client, 'PUT', path, body],
    ['a stranger', eve.client, 'DELETE', path],
    ['a stranger', eve.client, 'POST', `${path}/closings`, {}],
    ['a stranger', eve.client, 'GET', `/tasks/${task.id}`],
    ['a stranger', eve.client, 'POST', `/organizations/${one}/memos`, { name: 'Memo' }],
    ['a member is no owner', bob.client, 'POST', `${path}/closings`, {}],
    ['a member is no owner', bob.client, 'DELETE', path],
    ['a member, and another one is an owner', bob.client, 'PATCH', `/organizations/${one}`, { name: 'B' }],
    ['a new member', bob.client, 'POST', '/memberships', { organization_id: one, user_id: eve.id }],
    ['taken', bob.client, 'PATCH', `/projects/${other.id}`, { organization_id: one }],
  ]
  for (const [name, client, method, to, sent] of refused) {
    t.equal((await client.call(method, to, { body: sent })).status, 403, `${name}: ${method} ${to}`)
    if (name !== 'a stranger' || to.endsWith('memos')) continue
    const headers = { 'x-api-key': eve.key }
    const answer = await hiding.anybody.call(method, to, { body: sent, headers })
    t.match([answer.status, answer.body.error.code], [404, 'RESOURCE_NOT_FOUND'], `${method} ${to}`)
  }
  const unknown = { organization_id: UNKNOWN_ID, name: 'X' }
  for (const [name, client, method, to, sent, expected = 'organization_id NOT_FOUND'] of [
    ['created there', eve.client, 'POST', '/projects', { organization_id: one, name: 'X' }],
    ['created nowhere', eve.client, 'POST', '/projects', unknown],
    // The role reads all projects that are open, but only the foreign key knows whether there is one.
    [
      'created nowhere',
      stranger.client,
      'POST',
      '/tasks',
      { project_id: UNKNOWN_ID, name: 'X' },
      'project_id NOT_FOUND',
    ],
    ['moved away', bob.client, 'PATCH', path, { organization_id: two }],
    ['moved away in a dry run', bob.client, 'PATCH', `${path}?dry_run=true`, { organization_id: two }],
    ['replaced away', bob.client, 'PUT', path, { ...body, organization_id: two }],
  ] as const) {
    const reply = await client.call(method, to, { body: sent })
    t.same([reply.status, getViolations(reply)], [422, [expected]], `${name}: ${method} ${to}`)
  }
  t.same((await admin.get(path)).body.data, read, 'nothing has changed')
  t.equal((await bob.client.get(`/projects/${UNKNOWN_ID}`)).status, 404)

  t.match((await bob.client.patch(path, { name: 'One' })).body.data, { name: 'One' }, 'a single statement')
  t.match((await bob.client.put(path, body)).body.data, { name: 'Two' })
  t.equal((await ada.client.patch(`/organizations/${one}`, { name: 'Ada' })).status, 200)
  const three = await createOrganization(bob)
  t.match((await bob.client.patch(path, { organization_id: three })).body.data, { organization_id: three })
  t.equal((await ada.client.get(path)).status, 403)
  t.equal((await bob.client.post(`${path}/closings`, {})).body.data.status, 'closed')
  const count = async () => (await bob.client.get('/reports/projects')).body.count
  t.equal(await count(), 2, 'a route of its own')
  await removeMember(ada.client, one, bob.id)
  t.same([getIds(await bob.client.get('/projects')), await count()], [[mine.id], 1], 'no longer a member')
  t.equal((await bob.client.delete(path)).status, 204, 'an owner of the organization')
})

t.test('a rule that refuses names the field over which it goes', async (t) => {
  const { ada, bob, eve, one, mine } = await createTwo()
  const member = { organization_id: one, user_id: eve.id }
  const other = { owner_id: eve.id, status: 'draft' }
  const own = { owner_id: bob.id, status: 'submitted' }
  const paper = (await bob.client.post('/papers-1', { ...own, status: 'draft' })).body.data
  const led = await createOrganization(bob)
  const joined = (await bob.client.post('/memberships', { organization_id: led, user_id: eve.id })).body.data
  for (const [method, path, body, names] of [
    ['POST', '/memberships', member, ['organization_id']],
    ['POST', '/memberships?dry_run=true', member, ['organization_id']],
    // Columns of the row are judged first: the caller may not read this user.
    ['POST', '/papers-0', other, ['owner_id']],
    ['POST', '/papers-1', other, ['owner_id']],
    ['POST', '/papers-1', own, ['status']],
    ['PATCH', `/papers-1/${paper.id}`, { status: 'submitted' }, ['status']],
    ['PATCH', `/memberships/${joined.id}`, { organization_id: one }, ['organization_id']],
    ['DELETE', `/projects/${mine.id}`, undefined, []],
    ['POST', `/projects/${mine.id}/closings`, {}, []],
  ] as const) {
    const reply = await bob.client.call(method, path, { body })
    const expected = names.map((name) => `${name} FORBIDDEN`)
    t.same([reply.status, getViolations(reply)], [403, expected], `${method} ${path}: ${reply.text}`)
  }
  const batch = await bob.client.post('/batches', { operations: [post('/memberships', member)] })
  t.same([batch.status, getViolations(batch)], [403, ['operations.0.body.organization_id FORBIDDEN']])
  const typed = { data: { type: 'memberships', attributes: member } }
  const second = await bob.client.post('/v2/memberships', typed)
  t.same([second.status, getViolations(second)], [403, ['data.attributes.organization_id FORBIDDEN']])
  t.equal((await ada.client.get(`/memberships?user_id=${eve.id}&page=1`)).body.pagination.total, 0)
})

t.test(
  'the row as a change leaves it must meet a rule over relations, not one of columns alone',
  async (t) => {
    const { id, client } = await person('member')
    for (const [path, status] of [
      ['/papers-0', 200],
      ['/papers-1', 403],
    ] as const) {
      const refused = await client.post(path, { owner_id: id, status: 'submitted' })
      t.equal(refused.status, 403, `${path}: a new row meets the rule`)
      const { body } = await client.post(path, { owner_id: id, status: 'draft' })
      const submitted = await client.patch(`${path}/${body.data.id}`, { status: 'submitted' })
      t.equal(submitted.status, status, `${path}: ${submitted.text}`)
      const again = await client.patch(`${path}/${body.data.id}`, { status: 'draft' })
      t.equal(again.status, status === 200 ? 403 : 200, `${path}: the row before the change meets the rule`)
    }
  },
)

t.test('batches, exports and imports keep to the rule', async (t) => {
  const { ada, bob, eve, one, two, mine, other } = await createTwo()
  const create = (organization_id: string) => post('/projects', { organization_id, name: 'Batch' })
  for (const [operations, ...refused] of [
    [[create(one), create(one)]],
    [[create(one), create(two), create(one)], 422, 'operations.1.body.organization_id NOT_FOUND'],
    [[patch(other.id, { name: 'X' })], 403, 'operations.0 FORBIDDEN'],
    [[patch(mine.id, { name: 'X' })]],
    [[patch(mine.id, { organization_id: two })], 422, 'operations.0.body.organization_id NOT_FOUND'],
    // An earlier operation makes the caller a member.
    [[post('/organizations', { name: 'New' }), create('$0')]],
  ] as const) {
    const reply = await bob.client.post('/batches', { operations })
    if (refused.length === 0) t.equal(reply.status, 200)
    else t.same([reply.status, ...getViolations(reply)], refused)
  }

  const exported = await bob.client.get(`/projects?organization_id=${one},${two}`, {
    accept: 'application/x-ndjson',
  })
  const lines = exported.text.trim().split('\n')
  t.same(
    lines.map((line) => JSON.parse(line).organization_id),
    [one, one, one],
  )
  t.equal((await eve.client.get('/projects', { accept: 'text/csv' })).text.trim().split('\n').length, 2)

  const row = (organization_id: string, code?: string) => ({ organization_id, name: 'Import', code })
  for (const [name, rows, query, expected] of [
    ['created', [row(one), row(one)], '', { created: 2 }],
    ['changed', [row(one, mine.code)], '?on_conflict=code', { updated: 1 }],
    [
      'created there',
      [row(one), row(two), row(UNKNOWN_ID)],
      '',
      [2, 3].map((n) => `rows.${n}.organization_id NOT_FOUND`),
    ],
    ['a row of others', [row(two, other.code)], '?on_conflict=code', ['rows.1 FORBIDDEN']],
    ['taken', [row(one, other.code)], '?on_conflict=code', ['rows.1 FORBIDDEN']],
    ['moved away', [row(two, mine.code)], '?on_conflict=code', ['rows.1.organization_id NOT_FOUND']],
  ] as const) {
    const reply = await bob.client.call('POST', `/projects${query}`, {
      headers: { 'content-type': 'application/x-ndjson' },
      body: rows.map((each) => JSON.stringify(each)).join('\n'),
    })
    if ('length' in expected) t.same([reply.status, getViolations(reply)], [422, expected], name)
    else t.match([reply.status, reply.body.data], [200, expected], name)
  }
  const member = await bob.client.call('POST', '/memberships', {
    headers: { 'content-type': 'text/csv' },
    body: `organization_id,user_id\n${one},${eve.id}\n`,
  })
  const field = { field: 'rows.1.organization_id', code: 'FORBIDDEN', message: /\(line 2\)$/ }
  t.match([member.status, member.body.error.details], [422, [field]], 'a rule names the field')
  t.match((await ada.client.get(`/projects/${mine.id}`)).body.data, { organization_id: one, name: 'Import' })
})

t.test('a stored response is replayed only while the rules hold, also of each operation', async (t) => {
  const { ada, bob, eve, one, mine } = await createTwo()
  const create = (name: string) => post('/projects', { organization_id: one, name })
  const withKey = (method: string, path: string, body: object, { client } = bob) => {
    const headers = createKeyHeader()
    return () => client.call(method, path, { body, headers })
  }
  const batch = (...operations: object[]) => withKey('POST', '/batches', { operations })
  const replaced = { organization_id: one, lead_id: null, name: 'Replaced' }
  const writes: [name: string, send: () => Promise<Reply>, refused: string][] = [
    ['a creation', withKey('POST', '/projects', create('One').body), 'organization_id NOT_FOUND'],
    ['a change', withKey('PATCH', `/projects/${mine.id}`, { name: 'Two' }), ''],
    [
      'a creation among others',
      batch(post('/organizations', { name: 'Own' }), create('Four')),
      'operations.1.body.organization_id NOT_FOUND',
    ],
    ['a change in a batch', batch(patch(mine.id, { name: 'Five' })), 'operations.0 FORBIDDEN'],
    [
      'a replacement',
      batch({ method: 'PUT', path: `/projects/${mine.id}`, body: replaced }),
      'operations.0 FORBIDDEN',
    ],
    [
      'a task',
      batch(create('Six'), post('/tasks', { project_id: '$0', name: 'A' })),
      'operations.0.body.organization_id NOT_FOUND',
    ],
    [
      'a change of what the batch has created',
      batch(create('Seven'), patch('$0', { name: 'Eight' })),
      'operations.0.body.organization_id NOT_FOUND',
    ],
  ]
  const firsts = new Map<string, string>()
  const expectReplays = async () => {
    for (const [name, send] of writes) {
      const again = await send()
      t.same([isReplayed(again), again.text], [true, firsts.get(name)], name)
    }
  }
  for (const [name, send] of writes) {
    const first = await send()
    t.ok(first.status < 300 && !isReplayed(first), `${name}: ${first.text}`)
    firsts.set(name, first.text)
  }
  await expectReplays()
  await removeMember(ada.client, one, bob.id)
  for (const [name, send, refused] of writes) {
    const reply = await send()
    const status = refused.endsWith('NOT_FOUND') ? 422 : 403
    t.same([reply.status, getViolations(reply).join()], [status, refused], name)
    t.notMatch(reply.text, one)
  }
  await ada.client.post('/memberships', { organization_id: one, user_id: bob.id })
  await expectReplays()

  // A row was taken away or removed since.
  const own = await createOrganization(bob)
  const made = batch(
    post('/projects', { organization_id: own, name: 'Moved' }),
    patch('$0', { name: 'Last' }),
  )
  const [created] = (await made()).body.data.results
  await admin.patch(`/projects/${created.body.id}`, { organization_id: await createOrganization(ada) })
  // What only the batch created is found by its id.
  t.match(await made(), { status: 403, body: { error: { details: [{ field: 'operations.1' }] } } })
  const removed = await createProject(ada.client, one)
  const operations = [
    patch(removed.id, { name: 'Last' }),
    { method: 'DELETE', path: `/projects/${removed.id}` },
  ]
  const remove = withKey('POST', '/batches', { operations }, ada)
  const first = await remove()
  t.equal((await remove()).text, first.text, 'the batch has removed the row itself')
  const change = withKey('POST', '/batches', { operations: [patch(mine.id, { name: 'Last' })] }, ada)
  t.equal((await change()).status, 200)
  await ada.client.delete(`/projects/${mine.id}`)
  const missing = [{ field: 'operations.0', code: 'NOT_FOUND' }]
  t.match(await change(), { status: 404, body: { error: { details: missing } } }, 'as a single change')

  // Operations of the resource, one of which removes its row.
  const withdrawn = await createProject(ada.client, one)
  const path = `/projects/${withdrawn.id}/withdrawals`
  const [key, other] = [createKeyHeader(), createKeyHeader()]
  const withdrawal = await ada.client.post(path, {}, key)
  t.equal(withdrawal.status, 201, withdrawal.text)
  t.equal((await ada.client.get(`/projects/${withdrawn.id}`)).status, 404)
  const again = await ada.client.post(path, {}, key)
  t.same([isReplayed(again), again.text], [true, withdrawal.text])
  t.equal((await ada.client.post(path, {}, other)).status, 404)
  t.equal((await bob.client.post(path, {}, key)).status, 404, 'the key of another user')
  const closed = await createProject(ada.client, one)
  const close = withKey('POST', `/projects/${closed.id}/closings`, {}, ada)
  t.equal((await close()).status, 201)
  t.ok(isReplayed(await close()))
  await admin.patch(`/projects/${closed.id}`, { organization_id: await createOrganization(eve) })
  t.equal((await close()).status, 403)
})

t.test('the documents name all conditions of a rule', async (t) => {
  t.equal(
    describeRule([
      { status: 'open', user_id: CALLER, 'event.user_id': CALLER, 'event.status': 'paid' },
      { 'event.is_public': true },
    ]),
    "the caller's own and the caller's own by `event.user_id` with `status` open and `event.status` paid, or with `event.is_public` true",
  )
})
