/** Rules over relations hold wherever rules do: in lists, reads, all kinds of writes, includes, batches, files and replays. */
import t from 'tap'
import { CALLER, NOT_NULL } from '../../plugins/access/rules.ts'
import type { OwnRoutes } from '../../plugins/collection/own-routes.ts'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import {
  createOrganization,
  createOrganizations,
  createProject,
  projects,
  removeMember,
} from '../helpers/organizations.ts'
import { createKeyHeader, getIds, isReplayed } from '../helpers/replies.ts'

const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over projects',
  async plugin(app) {
    app.get(
      '/reports/projects',
      { config: { access: 'projects:list' }, schema: { summary: 'Count projects', description: 'Counts.' } },
      async (request) => ({ count: await app.database.$count(projects, request.getReadable(projects)) }),
    )
  },
}

const test = await testApp(t, {}, { ...(await createOrganizations(t)), routes: [reports] })
const { admin, person } = test
const [ada, bob, eve] = [await person('member'), await person('member'), await person('member')]

t.test('lists, totals, pages and filters have the rows of the organizations of a member', async (t) => {
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(ada)]
  const ids = []
  for (const [i, id] of [one, two, one, two, one].entries())
    ids.push((await createProject(ada.client, id, { name: `Project ${i}` })).id)
  const newest = ids.toReversed()
  t.same(getIds(await ada.client.get('/projects')), newest)
  t.same(getIds(await bob.client.get('/projects')), [newest[0], newest[2], newest[4]])
  t.same(getIds(await eve.client.get('/projects')), [])
  t.same(getIds(await ada.client.get('/projects?sort=name&order=asc')), ids)
  const page = await ada.client.get('/projects?page=2&limit=2')
  t.same(getIds(page), newest.slice(2, 4))
  t.match(page.body.pagination, { total: 5, total_pages: 3 })
  t.match((await bob.client.get('/projects?page=1&limit=2')).body.pagination, { total: 3 })
  t.match((await eve.client.get('/projects?page=1')).body.pagination, { total: 0 })
  t.same(getIds(await bob.client.get(`/projects?organization_id=${two}`)), [])
  t.same(getIds(await bob.client.get(`/projects?organization_id=${one}&page=1`)).length, 3)
  t.same(getIds(await bob.client.get(`/projects?organization_id=${one},${two}&limit=2`)), [
    newest[0],
    newest[2],
  ])
  t.same(getIds(await bob.client.get('/projects?status=open,closed')).length, 3)
  const first = await ada.client.get('/projects?limit=2')
  const second = await ada.client.get(`/projects?limit=2&cursor=${first.body.pagination.cursor}`)
  t.same([...getIds(first), ...getIds(second)], newest.slice(0, 4))
  t.same(
    (await ada.client.get('/organizations')).body.data.map(({ id }: { id: string }) => id).sort(),
    [one, two].sort(),
  )
  t.same(getIds(await bob.client.get('/organizations')), [one])

  const memo = await ada.client.post(`/organizations/${one}/memos`, { name: 'Memo' })
  t.equal(memo.status, 201)
  t.same(getIds(await bob.client.get(`/organizations/${one}/memos`)), [memo.body.data.id])
  t.same(getIds(await eve.client.get(`/organizations/${one}/memos`)), [])
  t.equal((await eve.client.post(`/organizations/${one}/memos`, { name: 'Memo' })).status, 403)

  const count = async () => (await bob.client.get('/reports/projects')).body.count
  t.equal(await count(), 3, 'a route of its own')
  await removeMember(ada.client, one, bob.id)
  t.same(getIds(await bob.client.get('/projects')), [], 'the removal of a membership ends sight')
  t.equal(await count(), 0)
  t.match((await bob.client.get('/projects?page=1')).body.pagination, { total: 0 })
  for (const id of [one, two]) t.equal((await ada.client.delete(`/organizations/${id}`)).status, 204)
})

t.test('a rule with alternatives lists each row once, in order', async (t) => {
  const manager = await person('manager')
  const one = await createOrganization(ada)
  const membership = { organization_id: one, user_id: manager.id }
  t.equal((await ada.client.post('/memberships', membership)).status, 201)
  const two = await createOrganization(bob)
  const made = []
  for (let i = 0; i < 8; i++) {
    const [organization, owner] = i % 2 === 0 ? [one, ada] : [two, bob]
    made.push(await createProject(owner.client, organization, { status: i % 4 < 2 ? 'open' : 'closed' }))
  }
  const expected = made
    .filter(({ status, organization_id }) => status === 'open' || organization_id === one)
    .map(({ id }) => id)
    .reverse()
  t.equal(expected.length, 6)
  t.same(getIds(await manager.client.get('/projects')), expected)
  const walked: string[] = []
  for (let page = 1; page <= 3; page++) {
    const reply = await manager.client.get(`/projects?page=${page}&limit=2`)
    t.match(reply.body.pagination, { total: 6, total_pages: 3 })
    walked.push(...getIds(reply))
  }
  t.same(walked, expected)
  for (const { id, status, organization_id } of made) {
    const isVisible = status === 'open' || organization_id === one
    t.equal((await manager.client.get(`/projects/${id}`)).status, isVisible ? 200 : 403)
  }
  for (const [owner, id] of [
    [ada, one],
    [bob, two],
  ] as const)
    await owner.client.delete(`/organizations/${id}`)
})

t.test('one row is read, changed and deleted by the same rows of other tables', async (t) => {
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(eve)]
  const project = await createProject(bob.client, one)
  const path = `/projects/${project.id}`
  t.equal((await bob.client.get(path)).status, 200)
  t.notOk('is_allowed' in (await bob.client.get(path)).body.data)
  t.equal((await bob.client.get(`${path}?fields=name`)).status, 200)
  t.equal((await eve.client.get(path)).status, 403)
  t.equal((await bob.client.get(`/projects/${UNKNOWN_ID}`)).status, 404)

  t.match((await bob.client.patch(path, { name: 'One' })).body.data, { name: 'One' }, 'a single statement')
  const body = { organization_id: one, lead_id: bob.id, name: 'Two', status: 'open' }
  t.match((await bob.client.put(path, body)).body.data, { name: 'Two' })
  for (const reply of [
    await eve.client.patch(path, { name: 'Eve' }),
    await eve.client.put(path, { ...body, name: 'Eve' }),
    await eve.client.delete(path),
    await eve.client.post(`${path}/closings`, {}),
    await bob.client.post(`${path}/closings`, {}),
    await bob.client.delete(path),
  ])
    t.equal(reply.status, 403)
  t.match((await admin.get(path)).body.data, { name: 'Two', status: 'open' })

  t.equal((await eve.client.post('/projects', { organization_id: one, name: 'X' })).status, 403)
  t.equal((await eve.client.post('/projects', { organization_id: UNKNOWN_ID, name: 'X' })).status, 403)

  t.equal((await bob.client.patch(path, { organization_id: two })).status, 403, 'moved away')
  t.equal((await bob.client.put(path, { ...body, organization_id: two })).status, 403, 'moved away')
  const taken = await createProject(eve.client, two)
  t.equal((await bob.client.patch(`/projects/${taken.id}`, { organization_id: one })).status, 403, 'taken')
  t.match((await admin.get(path)).body.data, { organization_id: one })
  const three = await createOrganization(bob)
  t.match((await bob.client.patch(path, { organization_id: three })).body.data, { organization_id: three })
  t.equal((await ada.client.get(path)).status, 403)
  t.equal((await bob.client.post(`${path}/closings`, {})).status, 201)
  t.match((await bob.client.get(path)).body.data, { status: 'closed' })
  t.equal((await bob.client.delete(path)).status, 204, 'an owner of the organization')
  for (const [owner, id] of [
    [ada, one],
    [eve, two],
    [bob, three],
  ] as const)
    await owner.client.delete(`/organizations/${id}`)
})

t.test('paths of one condition that begin alike mean the same row', async (t) => {
  const one = await createOrganization(ada, [bob])
  const membership = { organization_id: one, user_id: eve.id }
  t.equal(
    (await bob.client.post('/memberships', membership)).status,
    403,
    'a member, and another one is an owner',
  )
  t.equal((await bob.client.patch(`/organizations/${one}`, { name: 'Bob' })).status, 403)
  t.equal((await ada.client.patch(`/organizations/${one}`, { name: 'Ada' })).status, 200)
  t.equal((await ada.client.post('/memberships', membership)).status, 201)
  t.equal((await eve.client.get(`/organizations/${one}`)).status, 200)
  await ada.client.delete(`/organizations/${one}`)
})

t.test('a path of three relations holds, and so do includes and filters over relations', async (t) => {
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(eve)]
  const [mine, other] = [await createProject(ada.client, one), await createProject(eve.client, two)]
  const task = await bob.client.post('/tasks', { project_id: mine.id, name: 'Task' })
  t.equal(task.status, 201)
  t.equal((await bob.client.post('/tasks', { project_id: other.id, name: 'Task' })).status, 403)
  const hidden = (await eve.client.post('/tasks', { project_id: other.id, name: 'Task' })).body.data
  t.same(getIds(await bob.client.get('/tasks')), [task.body.data.id])
  t.same(getIds(await bob.client.get('/tasks?project.status=open&page=1')), [task.body.data.id])
  t.same(getIds(await eve.client.get('/tasks')), [hidden.id])
  t.equal((await bob.client.get(`/tasks/${hidden.id}`)).status, 403)

  const manager = await person('manager')
  await admin.patch(`/projects/${mine.id}`, { status: 'closed' })
  const included = await manager.client.get('/tasks?include=project')
  t.same(
    included.body.data.map((each: { project: object | null }) => each.project !== null),
    [true, false],
    'the related row has a rule of its own',
  )
  t.same(getIds(await manager.client.get('/tasks?project.status=closed')), [], 'no oracle')
  t.same(getIds(await manager.client.get('/tasks?project.status=open')), [hidden.id])
  const organization = await bob.client.get(`/organizations/${one}?include=projects,memberships`)
  t.equal(organization.body.data.projects.length, 1)
  t.equal(organization.body.data.memberships.length, 2)
  for (const [owner, id] of [
    [ada, one],
    [eve, two],
  ] as const)
    await owner.client.delete(`/organizations/${id}`)
})

t.test('batches, exports and imports keep to the rule', async (t) => {
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(eve)]
  const [mine, other] = [await createProject(ada.client, one), await createProject(eve.client, two)]
  const create = (organization_id: string) => ({
    method: 'POST',
    path: '/projects',
    body: { organization_id, name: 'Batch' },
  })
  const batch = (operations: object[]) => bob.client.post('/batches', { operations })
  t.equal((await batch([create(one), create(one)])).status, 200)
  const refused = await batch([create(one), create(two), create(one)])
  t.match([refused.status, refused.body.error.details[0].field], [403, /^operations\.1/])
  t.equal(
    (await batch([{ method: 'PATCH', path: `/projects/${other.id}`, body: { name: 'X' } }])).status,
    403,
  )
  t.equal((await batch([{ method: 'PATCH', path: `/projects/${mine.id}`, body: { name: 'X' } }])).status, 200)
  t.equal(
    (await batch([{ method: 'PATCH', path: `/projects/${mine.id}`, body: { organization_id: two } }])).status,
    403,
  )
  const joined = await ada.client.post('/batches', {
    operations: [
      { method: 'POST', path: '/organizations', body: { name: 'New' } },
      { method: 'POST', path: '/projects', body: { organization_id: '$0', name: 'First' } },
      { method: 'POST', path: '/projects', body: { organization_id: '$0', name: 'Second' } },
    ],
  })
  t.equal(joined.status, 200, 'an earlier operation makes the caller a member')
  t.match((await bob.client.get('/projects?page=1')).body.pagination, { total: 3 })

  const exported = await bob.client.get('/projects', { accept: 'application/x-ndjson' })
  const lines = exported.text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.same(
    lines.map((line) => line.organization_id),
    [one, one, one],
  )
  t.equal((await eve.client.get('/projects', { accept: 'text/csv' })).text.trim().split('\n').length, 2)

  const importRows = (rows: object[], query = '') =>
    bob.client.call('POST', `/projects${query}`, {
      headers: { 'content-type': 'application/x-ndjson' },
      body: rows.map((row) => JSON.stringify(row)).join('\n'),
    })
  const row = (organization_id: string) => ({ organization_id, name: 'Import' })
  t.match((await importRows([row(one), row(one)])).body.data, { created: 2 })
  const wrong = await importRows([row(one), row(two)])
  t.match([wrong.status, wrong.body.error.details], [422, [{ field: /^rows\.2/, code: 'FORBIDDEN' }]])
  const byCode = '?on_conflict=code'
  t.match((await importRows([{ ...row(one), code: mine.code }], byCode)).body.data, { updated: 1 })
  for (const each of [
    { ...row(two), code: other.code },
    { ...row(one), code: other.code },
    { ...row(two), code: mine.code },
  ])
    t.equal((await importRows([each], byCode)).status, 422, 'a row of others, taken or moved away')
  t.match((await admin.get(`/projects/${mine.id}`)).body.data, { organization_id: one, name: 'Import' })
  for (const [owner, id] of [
    [ada, one],
    [eve, two],
  ] as const)
    await owner.client.delete(`/organizations/${id}`)
})

t.test('a path may end with any value but null, of the same row as the paths that begin alike', async (t) => {
  const organizations = await createOrganizations(t)
  const member = [
    { 'project.organization.memberships.user_id': CALLER, 'project.lead_id': NOT_NULL },
  ] as const
  const led = organizations.resources.map((each) =>
    each.name === 'tasks'
      ? { ...each, access: { ...each.access, list: { member }, read: { member } } }
      : each,
  )
  const api = await testApp(t, {}, { ...organizations, resources: led })
  const [owner, stranger] = [await api.person('member'), await api.person('member')]
  const one = await createOrganization(owner)
  const [project, other] = [await createProject(owner.client, one), await createProject(owner.client, one)]
  const { id } = (await owner.client.post('/tasks', { project_id: project.id, name: 'Task' })).body.data
  const changeLead = (address: string, lead_id: string | null) =>
    owner.client.patch(`/projects/${address}`, { lead_id })
  await changeLead(other.id, stranger.id)
  const expect = async (isVisible: boolean) => {
    t.same(getIds(await owner.client.get('/tasks')), isVisible ? [id] : [])
    t.equal((await owner.client.get(`/tasks/${id}`)).status, isVisible ? 200 : 403)
    await api.app.events.assignAll()
    const events = await owner.client.get('/events?resource_type=tasks')
    t.equal(events.body.data.length, isVisible ? 1 : 0)
    t.same(getIds(await stranger.client.get('/tasks')), [])
  }
  await expect(false)
  t.equal((await changeLead(project.id, owner.id)).status, 200)
  await expect(true)
  await changeLead(project.id, null)
  await expect(false)
  const { paths } = (await api.anybody.get('/openapi/v1.json')).body
  t.match(paths['/api/v1/tasks'].get.description, 'with `project.lead_id` not null')
})

t.test('a stored response is replayed only while the rule holds', async (t) => {
  const one = await createOrganization(ada, [bob])
  const key = createKeyHeader()
  const body = { organization_id: one, name: 'Once' }
  const made = await bob.client.post('/projects', body, key)
  t.equal(made.status, 201)
  t.ok(isReplayed(await bob.client.post('/projects', body, key)))
  const path = `/projects/${made.body.data.id}`
  const patchKey = createKeyHeader()
  t.equal((await bob.client.patch(path, { name: 'Again' }, patchKey)).status, 200)
  t.ok(isReplayed(await bob.client.patch(path, { name: 'Again' }, patchKey)))
  await removeMember(ada.client, one, bob.id)
  t.equal((await bob.client.post('/projects', body, key)).status, 403)
  t.equal((await bob.client.patch(path, { name: 'Again' }, patchKey)).status, 403)
  t.equal((await bob.client.patch(path, { name: 'New' })).status, 403)
  t.equal((await bob.client.get(path)).status, 403)
  await ada.client.delete(`/organizations/${one}`)
})

t.test('a stored response of a batch is replayed only while the rules of its operations hold', async (t) => {
  const one = await createOrganization(ada, [bob])
  const { id } = await createProject(ada.client, one)
  const post = (path: string, body: object) => ({ method: 'POST', path, body })
  const ofOne = (name: string) => post('/projects', { organization_id: one, name })
  const batches: Record<string, object[]> = {
    'a creation': [ofOne('Once')],
    'a creation among others': [post('/organizations', { name: 'Own' }), ofOne('Twice')],
    'a change': [{ method: 'PATCH', path: `/projects/${id}`, body: { name: 'Changed' } }],
    'a replacement': [
      {
        method: 'PUT',
        path: `/projects/${id}`,
        body: { organization_id: one, lead_id: null, name: 'Replaced' },
      },
    ],
    'a task of a project of the batch': [
      ofOne('With a task'),
      post('/tasks', { project_id: '$0', name: 'A' }),
    ],
    'a change of what the batch has created': [
      ofOne('Created'),
      { method: 'PATCH', path: '/projects/$0', body: { name: 'And changed' } },
    ],
  }
  const keys = new Map<string, Record<string, string>>()
  const send = (name: string, client = bob.client) =>
    client.post('/batches', { operations: batches[name] }, keys.get(name))
  for (const name of Object.keys(batches)) {
    keys.set(name, createKeyHeader())
    const first = await send(name)
    t.equal(first.status, 200, first.text)
    const again = await send(name)
    t.ok(isReplayed(again), name)
    t.equal(again.text, first.text, name)
  }
  await removeMember(ada.client, one, bob.id)
  for (const name of Object.keys(batches)) {
    const { status, body } = await send(name)
    t.equal(status, 403, name)
    t.notMatch(JSON.stringify(body), one)
    const at = name === 'a creation among others' ? 1 : 0
    t.match(body.error.details, [{ field: `operations.${at}`, code: 'FORBIDDEN' }])
  }
  await ada.client.post('/memberships', { organization_id: one, user_id: bob.id })
  for (const name of Object.keys(batches)) t.ok(isReplayed(await send(name)), `${name}: a member again`)

  // What only the batch created is found by its id: a replay is refused when that row was taken away.
  const [own] = [await createOrganization(bob)]
  const operations = [
    post('/projects', { organization_id: own, name: 'Moved' }),
    { method: 'PATCH', path: '/projects/$0', body: { name: 'Moved 2' } },
  ]
  const key = createKeyHeader()
  const made = await bob.client.post('/batches', { operations }, key)
  const [created] = made.body.data.results
  await admin.patch(`/projects/${created.body.id}`, { organization_id: await createOrganization(ada) })
  const refused = await bob.client.post('/batches', { operations }, key)
  t.equal(refused.status, 403)
  t.match(refused.body.error.details, [{ field: 'operations.1', code: 'FORBIDDEN' }])
})

t.test('a batch is repeated although it has removed rows; a row that was removed since is 404', async (t) => {
  const one = await createOrganization(ada)
  const [kept, removed] = [await createProject(ada.client, one), await createProject(ada.client, one)]
  const send = (operations: object[], key: Record<string, string>) =>
    ada.client.post('/batches', { operations }, key)
  const change = (id: string) => ({ method: 'PATCH', path: `/projects/${id}`, body: { name: 'Last' } })
  const removal = [change(removed.id), { method: 'DELETE', path: `/projects/${removed.id}` }]
  const [removalKey, changeKey] = [createKeyHeader(), createKeyHeader()]
  const first = await send(removal, removalKey)
  t.equal(first.status, 200, first.text)
  t.equal((await send(removal, removalKey)).text, first.text)
  t.equal((await send([change(kept.id)], changeKey)).status, 200)
  await ada.client.delete(`/projects/${kept.id}`)
  const gone = await send([change(kept.id)], changeKey)
  t.equal(gone.status, 404, 'as a single change')
  t.match(gone.body.error.details, [{ field: 'operations.0', code: 'NOT_FOUND' }])
})

t.test(
  'an operation that removes its row is repeated, while a caller without access is refused',
  async (t) => {
    const one = await createOrganization(ada, [bob])
    const { id } = await createProject(ada.client, one)
    const key = createKeyHeader()
    const path = `/projects/${id}/withdrawals`
    const first = await ada.client.post(path, {}, key)
    t.equal(first.status, 201, first.text)
    t.equal((await ada.client.get(`/projects/${id}`)).status, 404)
    const again = await ada.client.post(path, {}, key)
    t.ok(isReplayed(again))
    t.equal(again.text, first.text)
    t.equal((await ada.client.post(path, {})).status, 404)
    t.equal((await ada.client.post(path, {}, createKeyHeader())).status, 404)
    t.equal((await bob.client.post(path, {}, key)).status, 404, 'the key of another user')
    const closed = await createProject(ada.client, one)
    const closing = createKeyHeader()
    const close = () => ada.client.post(`/projects/${closed.id}/closings`, {}, closing)
    t.equal((await close()).status, 201)
    t.ok(isReplayed(await close()))
    await admin.patch(`/projects/${closed.id}`, { organization_id: await createOrganization(eve) })
    t.equal((await close()).status, 403)
  },
)

t.test('with HIDE_FORBIDDEN, rows of other organizations do not exist', async (t) => {
  const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, await createOrganizations(t))
  const [owner, stranger] = [await hiding.person('member'), await hiding.person('member')]
  const one = await createOrganization(owner)
  const path = `/projects/${(await createProject(owner.client, one)).id}`
  for (const reply of [
    await stranger.client.get(path),
    await stranger.client.patch(path, { name: 'X' }),
    await stranger.client.delete(path),
    await stranger.client.post(`${path}/closings`, {}),
    await stranger.client.get(`/organizations/${one}`),
  ])
    t.match([reply.status, reply.body.error.code], [404, 'RESOURCE_NOT_FOUND'])
  t.equal((await owner.client.get(path)).status, 200)
})
