/** `user.status` selects the rows whose related row has a value and may be read by the caller. */
import { Type } from '@sinclair/typebox'
import { index, pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, moment, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { CALLER } from '../../plugins/access/rules.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { v2 } from '../../plugins/versioning/representation/v2.ts'
import { common as commonFields, Id, Nothing, Nullable, OneOf } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { checkRefusals, collectIds, getIds, getViolations } from '../helpers/replies.ts'
import { createTable, insertRows } from '../helpers/rows.ts'
import { v3 } from '../version-3/v3.ts'
import { checkValues } from './refusals.ts'

/** Rows that refer to others of their own table, and expire. */
const tasks = pgTable(
  'tasks',
  {
    ...common(),
    kind: text().$type<'plan' | 'step'>().notNull(),
    parent_id: uuid(),
    user_id: uuid().notNull(),
    expires_at: moment().notNull(),
  },
  (t) => [
    index('tasks_created_at').on(t.created_at, t.id),
    index('tasks_kind').on(t.kind, t.created_at, t.id),
    index('tasks_parent_id').on(t.parent_id),
    index('tasks_user_id').on(t.user_id),
  ],
)

const own = [{ user_id: CALLER }] as const
const tasksResource = defineResource({
  name: 'tasks',
  singular: 'Task',
  plural: 'Tasks',
  description: 'What is to be done',
  table: tasks,
  verbs: ['list'],
  expiry: tasks.expires_at,
  schemas: {
    read: Type.Object(
      { id: Id(), kind: OneOf(['plan', 'step']), parent_id: Nullable(Id()), user_id: Id(), ...commonFields },
      { title: 'Task' },
    ),
    create: Nothing,
    change: Nothing,
  },
  filters: ['kind'],
  sorts: { created_at: tasks.created_at },
  search: [],
  relations: {
    parent: { to: tasks, local: 'parent_id', foreign: 'id', many: false, filters: ['kind'] },
    user: { to: users, local: 'user_id', foreign: 'id', many: false, filters: ['status', 'role', 'email'] },
  },
  // Every caller lists all tasks, and may read their own.
  access: { list: { admin: true, manager: true, member: true }, read: { admin: true, member: own } },
  versions: { 3: { rename: { kind: 'sort_of' } } },
})

const definitions = resources.map((definition) =>
  definition.name === 'users'
    ? { ...definition, versions: { 3: { rename: { role: 'rank' }, hide: ['status'] } } }
    : definition,
)
const database = await testDatabase(t)
await createTable(database, tasks)
const { admin, person, peopleOfAllRoles } = await testApp(
  t,
  {},
  {
    database,
    resources: [...definitions, tasksResource],
    versions: [v1, v2, v3].map((representation) => ({ representation })),
  },
)
const people = await peopleOfAllRoles()
const ada = people.member
const bob = await person('member')
await database.run(`update users set status = 'suspended' where id = $1`, [bob.id])

const later = '2999-01-01T00:00:00Z'
const [plan = '', lost = ''] = await insertRows(database, 'tasks', [
  { kind: 'plan', user_id: ada.id, expires_at: later },
  { kind: 'plan', user_id: ada.id, expires_at: '2020-01-01T00:00:00Z' },
])
const steps = await insertRows(
  database,
  'tasks',
  [
    { parent_id: plan, user_id: ada.id },
    { parent_id: plan, user_id: bob.id },
    { parent_id: lost, user_id: ada.id },
    { parent_id: null, user_id: ada.id },
  ].map((row) => ({ ...row, kind: 'step', expires_at: later })),
)
const all = [plan, ...steps]
const find = async (query: string, client = admin) => {
  const reply = await client.get(`/tasks?sort=created_at&${query}`)
  return reply.status === 200 ? getIds(reply).map((id) => all.indexOf(id)) : getViolations(reply)
}

t.test('a filter of a relation takes a list, and combines with the other filters', async (t) => {
  t.same(await find('user.status=suspended'), [2])
  t.same(await find('user.status=active'), [0, 1, 3, 4])
  t.same(await find('user.status=active,suspended'), [0, 1, 2, 3, 4])
  t.same(await find('user.status=active&kind=plan'), [0])
  t.same(await find('user.status=active,inactive&user.role=manager'), [])
  const [row] = await database.run('select email from users where id = $1', [bob.id])
  t.same(await find(`user.email=${encodeURIComponent(String(row?.email).toUpperCase())}`), [2], 'in any case')
  t.same(await find('user.status=suspended&page=1'), [2])
  t.equal((await admin.get('/tasks?user.status=active&page=1')).body.pagination.total, 4)
})

t.test('a relation to the same table is compared, and a row that has expired is none', async (t) => {
  t.same(await find('parent.kind=plan'), [1, 2])
  t.same(await find('parent.kind=step'), [])
  t.same(await find('parent.kind=plan&kind=step,plan&user.status=suspended'), [2], 'with several values')
})

t.test('a row that the caller may not read is compared with nothing', async (t) => {
  // Ada lists the tasks of Bob, but reads neither Bob nor his tasks.
  t.same(await find('', ada.client), [0, 1, 2, 3, 4])
  for (const status of ['active', 'inactive', 'suspended', 'active,inactive,suspended']) {
    const own = status.startsWith('active') ? [0, 1, 3, 4] : []
    t.same(await find(`user.status=${status}`, ada.client), own, status)
  }
  t.same(await find('user.role=member,manager,admin', ada.client), [0, 1, 3, 4])
  t.same(await find('parent.kind=plan', ada.client), [1, 2], 'the plan is her own')
  t.same(await find('parent.kind=plan', people.manager.client), [], 'a role that reads no task')
  t.equal((await ada.client.get('/tasks?user.status=suspended&page=1')).body.pagination.total, 0)

  const orders = await insertRows(database, 'orders', [{ user_id: ada.id }, { user_id: bob.id }])
  t.same(getIds(await admin.get('/orders?user.status=suspended')), [orders[1]])
  t.same(getIds(await people.manager.client.get('/orders?user.status=active')), [orders[0]])
  t.same(getIds(await ada.client.get('/orders?user.status=active')), [orders[0]])
  t.same(getIds(await ada.client.get('/orders?user.status=suspended')), [])
})

t.test('a filter of a relation needs the read scope of its collection, as an include does', async (t) => {
  const { client } = await person('manager', ['orders:read'])
  t.equal((await client.get('/orders')).status, 200)
  for (const path of ['/orders?user.status=active', '/v2/orders?page=1&user.status=active']) {
    const refused = await client.get(path)
    t.equal(refused.status, 403, path)
    t.match(refused.body.error?.message ?? refused.body.error?.detail ?? refused.text, /users:read/)
  }
  t.same(getViolations(await client.get('/orders?user.status=no')), ['user.status INVALID_VALUE'])
  const reader = (await person('manager', ['orders:read', 'users:read'])).client
  t.equal((await reader.get('/orders?user.status=active')).status, 200)
})

t.test('other fields, other relations and invalid values are rejected', async (t) => {
  for (const version of ['/v1', '/v2']) {
    await checkValues(
      t,
      admin,
      `${version}/orders?user.status`,
      'INVALID_VALUE',
      'no ACTIVE active,no active, %00',
    )
    await checkValues(t, admin, `${version}/tasks?user.email`, 'INVALID_FORMAT', 'ada a@example.com,no')
  }
  await checkRefusals(t, admin, {
    '/orders?user.status=': ['user.status INVALID_VALUE'],
    '/orders?user.status=active&user.status=active': ['user.status CONFLICTING_PARAMETERS'],
    '/orders?user.status=active,no,never': ['user.status INVALID_VALUE'],
    '/tasks?parent.user_id=1': ['parent.user_id UNKNOWN_PARAMETER'],
  })
  const unknown = ['user.role', 'user.password_hash', 'user.name', 'products.status', 'user.', '.status']
  for (const name of [...unknown, 'user.status_not', 'user.orders.status', 'user[status]', '__proto__.a']) {
    t.same(getViolations(await admin.get(`/orders?${name}=active`)), [`${name} UNKNOWN_PARAMETER`])
  }
})

t.test('a version names the fields of the related resource as its own', async (t) => {
  const get = (query: string) => admin.get(`/v3/tasks?sort=created_at&${query}`)
  t.same(getIds(await get('user.rank=member')), all)
  t.same(getIds(await get('parent.sort_of=plan')), steps.slice(0, 2))
  t.same(getViolations(await get('user.role=member')), ['user.role UNKNOWN_PARAMETER'])
  t.same(getViolations(await get('user.status=active')), ['user.status UNKNOWN_PARAMETER'], 'a hidden field')
  t.same(getViolations(await get('parent.kind=plan')), ['parent.kind UNKNOWN_PARAMETER'])
  const { cursor } = (await get('user.rank=member&limit=1')).body.pagination
  const same = await admin.get(`/v1/tasks?sort=created_at&user.role=member&cursor=${cursor}`)
  t.same(getIds(same), all.slice(1), 'a cursor holds in each version')
})

t.test('a cursor is bound to the filters of relations', async (t) => {
  t.same(await collectIds(admin, '/tasks?sort=created_at&user.status=active&limit=2'), [
    plan,
    ...steps.filter((_, i) => i !== 1),
  ])
  const { cursor } = (await admin.get('/tasks?user.status=active&limit=1')).body.pagination
  for (const other of ['', 'user.status=suspended', 'user.role=member', 'kind=step']) {
    const reply = await admin.get(`/tasks?${other}&cursor=${cursor}`)
    t.equal(reply.body.error?.code, 'INVALID_CURSOR', other)
  }
})
