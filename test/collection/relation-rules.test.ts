/** Rules over relations hold wherever rules do: in lists, writes, includes, batches, files and replays. A model has the rest. */
import t from 'tap'
import type { OwnRoutes } from '../../plugins/collection/own-routes.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
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

const { database, resources } = await createOrganizations(t)
const { admin, person } = await testApp(t, {}, { database, resources, routes: [reports] })
const hiding = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database, resources })

/** Two organizations: one of Ada, with Bob as a member, and one of Eve, with a project of each. */
async function createTwo() {
  const [ada, bob, eve] = [await person('member'), await person('member'), await person('member')]
  const [one, two] = [await createOrganization(ada, [bob]), await createOrganization(eve)]
  const [mine, other] = [await createProject(ada.client, one), await createProject(eve.client, two)]
  return { ada, bob, eve, one, two, mine, other }
}

t.test('members see the projects of their organizations: in lists, totals, pages, filters', async (t) => {
  const { ada, bob, eve, one, two, mine, other } = await createTwo()
  const manager = await person('manager')
  for (const [owner, organization_id, { id: user_id }] of [
    [ada, one, manager],
    [eve, two, ada],
  ] as const)
    t.equal((await owner.client.post('/memberships', { organization_id, user_id })).status, 201)
  const closed = (client: Client, id: string) => createProject(client, id, { status: 'closed' })
  const newest = [await closed(ada.client, one), await closed(eve.client, two)].reverse().concat(other, mine)
  const [closedOfTwo, closedOfOne] = newest.map(({ id }) => id)
  for (const [name, client, query, expected] of [
    ['both', ada.client, '?limit=50', [closedOfTwo, closedOfOne, other.id, mine.id]],
    ['both, the oldest first', ada.client, '?sort=created_at', [mine.id, other.id, closedOfOne, closedOfTwo]],
    ['both, page 2 of 2', ada.client, '?page=2&limit=2', [other.id, mine.id]],
    ['one', bob.client, '', [closedOfOne, mine.id]],
    ['a filter by another organization', bob.client, `?organization_id=${two}`, []],
    ['a filter by both', bob.client, `?organization_id=${one},${two}`, [closedOfOne, mine.id]],
    ['a filter by the state', bob.client, '?status=closed', [closedOfOne]],
    ['open ones, or of a member', manager.client, '?limit=3', [closedOfOne, other.id, mine.id]],
  ] as const)
    t.same(getIds(await client.get(`/projects${query}`)), expected, name)
  t.match((await bob.client.get('/projects?page=1&limit=1')).body.pagination, { total: 2, total_pages: 2 })
  const { cursor } = (await ada.client.get('/projects?limit=2')).body.pagination
  t.same(getIds(await ada.client.get(`/projects?limit=2&cursor=${cursor}`)), [other.id, mine.id])

  t.same(getIds(await bob.client.get('/organizations')), [one])
  const memo = await ada.client.post(`/organizations/${one}/memos`, { name: 'Memo' })
  t.same(getIds(await bob.client.get(`/organizations/${one}/memos`)), [memo.body.data.id])
  t.same(getIds(await eve.client.get(`/organizations/${one}/memos`)), [])
  t.equal((await eve.client.post(`/organizations/${one}/memos`, { name: 'Memo' })).status, 403)

  const count = async () => (await bob.client.get('/reports/projects')).body.count
  t.equal(await count(), 2, 'a route of its own')
  await removeMember(ada.client, one, bob.id)
  t.same([getIds(await bob.client.get('/projects')), await count()], [[], 0], 'no longer a member')
})

t.test('one row is read, changed and deleted by the same rows of other tables', async (t) => {
  const { ada, bob, eve, one, two, mine, other } = await createTwo()
  const path = `/projects/${mine.id}`
  const body = { organization_id: one, lead_id: bob.id, name: 'Two', status: 'open' }
  const read = (await bob.client.get(path)).body.data
  t.same(Object.keys(read), Object.keys(mine))
  const ofStrangers: [string, string, object?][] = [
    ['GET', path],
    ['PATCH', path, { name: 'Eve' }],
    ['PUT', path, { ...body, name: 'Eve' }],
    ['DELETE', path],
    ['POST', `${path}/closings`, {}],
    ['GET', `/organizations/${one}`],
  ]
  for (const [method, to, sent] of ofStrangers) {
    t.equal((await eve.client.call(method, to, { body: sent })).status, 403, `${method} ${to}`)
    const hidden = await hiding.anybody.call(method, to, { body: sent, headers: { 'x-api-key': eve.key } })
    t.match([hidden.status, hidden.body.error.code], [404, 'RESOURCE_NOT_FOUND'], `${method} ${to}`)
  }
  const ofMembers: [name: string, Client, method: string, path: string, body?: object][] = [
    ['a member is no owner', bob.client, 'POST', `${path}/closings`, {}],
    ['a member is no owner', bob.client, 'DELETE', path],
    ['a member, and another one is an owner', bob.client, 'PATCH', `/organizations/${one}`, { name: 'B' }],
    ['a new member', bob.client, 'POST', '/memberships', { organization_id: one, user_id: eve.id }],
    ['created there', eve.client, 'POST', '/projects', { organization_id: one, name: 'X' }],
    ['created nowhere', eve.client, 'POST', '/projects', { organization_id: UNKNOWN_ID, name: 'X' }],
    ['moved away', bob.client, 'PATCH', path, { organization_id: two }],
    ['replaced away', bob.client, 'PUT', path, { ...body, organization_id: two }],
    ['taken', bob.client, 'PATCH', `/projects/${other.id}`, { organization_id: one }],
  ]
  for (const [name, client, method, to, sent] of ofMembers)
    t.equal((await client.call(method, to, { body: sent })).status, 403, name)
  t.same((await admin.get(path)).body.data, read, 'nothing has changed')
  t.equal((await bob.client.get(`/projects/${UNKNOWN_ID}`)).status, 404)

  t.match((await bob.client.patch(path, { name: 'One' })).body.data, { name: 'One' }, 'a single statement')
  t.match((await bob.client.put(path, body)).body.data, { name: 'Two' })
  t.equal((await ada.client.patch(`/organizations/${one}`, { name: 'Ada' })).status, 200)
  const three = await createOrganization(bob)
  t.match((await bob.client.patch(path, { organization_id: three })).body.data, { organization_id: three })
  t.equal((await ada.client.get(path)).status, 403)
  t.equal((await bob.client.post(`${path}/closings`, {})).status, 201)
  t.match((await bob.client.get(path)).body.data, { status: 'closed' })
  t.equal((await bob.client.delete(path)).status, 204, 'an owner of the organization')
})

t.test('a path of three relations holds, and so do includes and filters over relations', async (t) => {
  const { bob, eve, one, mine, other } = await createTwo()
  const [task, hidden] = await Promise.all([
    bob.client.post('/tasks', { project_id: mine.id, name: 'Task' }),
    eve.client.post('/tasks', { project_id: other.id, name: 'Task' }),
  ])
  t.equal((await bob.client.post('/tasks', { project_id: other.id, name: 'Task' })).status, 403)
  t.equal((await bob.client.get(`/tasks/${hidden.body.data.id}`)).status, 403)
  const manager = await person('manager')
  await admin.patch(`/projects/${mine.id}`, { status: 'closed' })
  const projectIds = `project_id=${mine.id},${other.id}`
  for (const [client, query, expected] of [
    [bob.client, '', [task]],
    [bob.client, '?project.status=closed&page=1', [task]],
    [eve.client, '', [hidden]],
    [manager.client, `?${projectIds}&project.status=open`, [hidden]],
    // A filter by what the manager may not read would show it.
    [manager.client, `?${projectIds}&project.status=closed`, []],
  ] as const)
    t.same(
      getIds(await client.get(`/tasks${query}`)),
      expected.map(({ body }) => body.data.id),
      query,
    )
  const included = (await manager.client.get(`/tasks?${projectIds}&include=project`)).body.data
  const shown = included.filter((each: Json) => each.project !== null)
  t.same([included.length, shown.map((each: Json) => each.project.id)], [2, [other.id]])
  const organization = await bob.client.get(`/organizations/${one}?include=projects,memberships`)
  t.match(organization.body.data, { projects: { length: 1 }, memberships: { length: 2 } })
})

t.test('batches, exports and imports keep to the rule', async (t) => {
  const { ada, bob, eve, one, two, mine, other } = await createTwo()
  const create = (organization_id: string) => ({
    ...{ method: 'POST', path: '/projects', body: { organization_id, name: 'Batch' } },
  })
  const patch = ({ id }: Json, body: object) => ({ method: 'PATCH', path: `/projects/${id}`, body })
  for (const [operations, refused] of [
    [[create(one), create(one)]],
    [[create(one), create(two), create(one)], 1],
    [[patch(other, { name: 'X' })], 0],
    [[patch(mine, { name: 'X' })]],
    [[patch(mine, { organization_id: two })], 0],
  ] as const) {
    const { status, body } = await bob.client.post('/batches', { operations })
    if (refused === undefined) t.equal(status, 200)
    else t.match([status, body.error.details], [403, [{ field: new RegExp(`^operations\\.${refused}`) }]])
  }
  const joined = [
    { method: 'POST', path: '/organizations', body: { name: 'New' } },
    { method: 'POST', path: '/projects', body: { organization_id: '$0', name: 'First' } },
  ]
  const reply = await ada.client.post('/batches', { operations: joined })
  t.equal(reply.status, 200, 'an earlier operation makes the caller a member')

  const exported = await bob.client.get('/projects', { accept: 'application/x-ndjson' })
  const lines = exported.text.trim().split('\n')
  t.same(
    lines.map((line) => JSON.parse(line).organization_id),
    [one, one, one],
  )
  t.equal((await eve.client.get('/projects', { accept: 'text/csv' })).text.trim().split('\n').length, 2)

  const send = (rows: object[], query = '') =>
    bob.client.call('POST', `/projects${query}`, {
      headers: { 'content-type': 'application/x-ndjson' },
      body: rows.map((row) => JSON.stringify(row)).join('\n'),
    })
  const row = (organization_id: string, code?: string) => ({ organization_id, name: 'Import', code })
  t.match((await send([row(one), row(one)])).body.data, { created: 2 })
  t.match((await send([row(one, mine.code)], '?on_conflict=code')).body.data, { updated: 1 })
  for (const [name, rows, query, last] of [
    ['created there', [row(one), row(two)], '', 2],
    ['a row of others', [row(two, other.code)], '?on_conflict=code', 1],
    ['taken', [row(one, other.code)], '?on_conflict=code', 1],
    ['moved away', [row(two, mine.code)], '?on_conflict=code', 1],
  ] as const) {
    const { status, body } = await send([...rows], query)
    t.match(
      [status, body.error.details],
      [422, [{ field: new RegExp(`^rows\\.${last}`), code: 'FORBIDDEN' }]],
      name,
    )
  }
  t.match((await admin.get(`/projects/${mine.id}`)).body.data, { organization_id: one, name: 'Import' })
})

t.test('a stored response is replayed only while the rules hold, also of each operation', async (t) => {
  const { ada, bob, one, mine } = await createTwo()
  const post = (path: string, body: object) => ({ method: 'POST', path, body })
  const create = (name: string) => post('/projects', { organization_id: one, name })
  const patch = (id: string, name: string) => ({ method: 'PATCH', path: `/projects/${id}`, body: { name } })
  const replaced = { organization_id: one, lead_id: null, name: 'Replaced' }
  const withKey = (method: string, path: string, body: object) => {
    const headers = createKeyHeader()
    return () => bob.client.call(method, path, { body, headers })
  }
  const batch = (...operations: object[]) => withKey('POST', '/batches', { operations })
  const writes: [name: string, send: () => Promise<Reply>, refused?: number][] = [
    ['a creation', withKey('POST', '/projects', create('One').body)],
    ['a change', withKey('PATCH', `/projects/${mine.id}`, { name: 'Two' })],
    ['a creation in a batch', batch(create('Three')), 0],
    ['a creation among others', batch(post('/organizations', { name: 'Own' }), create('Four')), 1],
    ['a change in a batch', batch(patch(mine.id, 'Five')), 0],
    ['a replacement', batch({ method: 'PUT', path: `/projects/${mine.id}`, body: replaced }), 0],
    [
      'a task of a project of the batch',
      batch(create('Six'), post('/tasks', { project_id: '$0', name: 'A' })),
      0,
    ],
    ['a change of what the batch has created', batch(create('Seven'), patch('$0', 'Eight')), 0],
  ]
  const expectReplays = async (firsts: Map<string, string>) => {
    for (const [name, send] of writes) {
      const again = await send()
      t.same([isReplayed(again), again.text], [true, firsts.get(name)], name)
    }
  }
  const firsts = new Map<string, string>()
  for (const [name, send] of writes) {
    const first = await send()
    t.ok(first.status < 300 && !isReplayed(first), `${name}: ${first.text}`)
    firsts.set(name, first.text)
  }
  await expectReplays(firsts)
  await removeMember(ada.client, one, bob.id)
  for (const [name, send, refused] of writes) {
    const { status, text, body } = await send()
    t.equal(status, 403, name)
    t.notMatch(text, one)
    if (refused !== undefined)
      t.match(body.error.details, [{ field: `operations.${refused}`, code: 'FORBIDDEN' }], name)
  }
  await ada.client.post('/memberships', { organization_id: one, user_id: bob.id })
  await expectReplays(firsts)
})

t.test('a replay is refused when a row was taken away or removed since', async (t) => {
  const { ada, bob, one, mine } = await createTwo()
  const own = await createOrganization(bob)
  const patch = (id: string) => ({ method: 'PATCH', path: `/projects/${id}`, body: { name: 'Last' } })
  const batch = ({ client }: typeof ada, ...operations: object[]) => {
    const key = createKeyHeader()
    return () => client.post('/batches', { operations }, key)
  }
  const body = { organization_id: own, name: 'Moved' }
  const create = batch(bob, { method: 'POST', path: '/projects', body }, patch('$0'))
  const [created] = (await create()).body.data.results
  await admin.patch(`/projects/${created.body.id}`, { organization_id: await createOrganization(ada) })
  // What only the batch created is found by its id.
  const details = [{ field: 'operations.1', code: 'FORBIDDEN' }]
  t.match(await create(), { status: 403, body: { error: { details } } })

  const removed = await createProject(ada.client, one)
  const remove = batch(ada, patch(removed.id), { method: 'DELETE', path: `/projects/${removed.id}` })
  const change = batch(ada, patch(mine.id))
  const first = await remove()
  t.equal(first.status, 200, first.text)
  t.equal((await remove()).text, first.text, 'the batch has removed the row itself')
  t.equal((await change()).status, 200)
  await ada.client.delete(`/projects/${mine.id}`)
  const missing = [{ field: 'operations.0', code: 'NOT_FOUND' }]
  t.match(await change(), { status: 404, body: { error: { details: missing } } }, 'as a single change')
})

t.test('an operation that removes its row is repeated, but not for a caller without access', async (t) => {
  const { ada, bob, eve, one, mine } = await createTwo()
  const key = createKeyHeader()
  const path = `/projects/${mine.id}/withdrawals`
  const first = await ada.client.post(path, {}, key)
  t.equal(first.status, 201, first.text)
  t.equal((await ada.client.get(`/projects/${mine.id}`)).status, 404)
  const again = await ada.client.post(path, {}, key)
  t.same([isReplayed(again), again.text], [true, first.text])
  t.equal((await ada.client.post(path, {}, createKeyHeader())).status, 404)
  t.equal((await bob.client.post(path, {}, key)).status, 404, 'the key of another user')
  const closed = await createProject(ada.client, one)
  const closing = createKeyHeader()
  const close = () => ada.client.post(`/projects/${closed.id}/closings`, {}, closing)
  t.equal((await close()).status, 201)
  t.ok(isReplayed(await close()))
  await admin.patch(`/projects/${closed.id}`, { organization_id: await createOrganization(eve) })
  t.equal((await close()).status, 403)
})
