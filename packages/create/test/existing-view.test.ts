/** `resource-api new --from` of a view writes a collection that is only read, and says what the view or the options lack. */
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testDatabase } from '../../testing/helpers/database.ts'
import { readApplication } from '../src/new/application.ts'
import { readRelation } from '../src/new/open-table.ts'
import { buildPlan } from '../src/new/plan.ts'
import { renderFiles } from '../src/new/render.ts'
import type { Answers } from '../src/new/resource-plan.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { resources, names } = await readApplication(root)

const CUSTOMERS = `create view customers as
  select u.id as user_id, u.name, u.name collate "default" as label, u.status, o.orders, o.average, o.last_at, u.created_at, u.updated_at, u.search
  from users u cross join lateral (
    select count(*) as orders, avg(total_amount) as average, max(created_at) as last_at from orders where user_id = u.id
  ) o`
const FIELDS =
  'name:text(1..200), label:text(1..200)?, status:enum(active|suspended), orders:integer(0..1000)'

/** Returns the files for the answers by their paths, or all that is wrong with them. */
async function render(t: Test, answers: Partial<Answers>, view = CUSTOMERS) {
  const database = await testDatabase(t)
  await database.run(view)
  await database.run(`insert into users (id, name, email) values (gen_random_uuid(), 'Ada', 'ada@example.com'),
    (gen_random_uuid(), 'Bob', 'bob@example.com')`)
  const whole = { name: 'customers', ...answers }
  const table = await readRelation(database, 'customers', whole, resources)
  const { plan, problems } = buildPlan(whole, resources, table)
  if (!plan) throw new Error(problems.map(({ message }) => message).join('\n'))
  const files = renderFiles(root, plan, names)
  return {
    table,
    get: (folder: string) =>
      files.find(({ path }) => path.startsWith(`${folder}/${whole.name}.`))?.text ?? '',
  }
}

t.test('a view becomes a collection that is only read', async (t) => {
  const { get, table } = await render(t, {
    ...{ key: 'user_id', owner: 'user_id:reads', fields: FIELDS, visible: 'status=active' },
    ...{ filters: 'name,status,orders', sorts: 'name,orders', search: 'name', aggregates: 'orders,status' },
  })
  const declared = get('drizzle/tables')
  for (const line of [
    "pgView('customers', {",
    "id: uuid('user_id').notNull(),",
    'user_id: uuid().notNull(),',
    'name: text().notNull(),',
    'label: pg.text(),',
    "status: text().$type<'active' | 'suspended'>().notNull(),",
    "orders: pg.bigint({ mode: 'number' }).notNull(),",
    "last_at: pg.timestamp({ withTimezone: true, mode: 'string' }),",
    'search: folded(),',
    '}).existing()',
  ])
    t.ok(declared.includes(line), line)
  const schema = get('schemas')
  t.match(schema, 'orders: Integer(0, 1000,')
  t.match(schema, /last_at: Nullable\(/)
  t.notMatch(schema, /Create|Change|average/)
  t.strictSame(table.left, ['average: resources have no column of the type numeric'])
  const plugin = get('plugins')
  for (const line of [
    'schemas: { read: Customer },',
    "filters: ['name', 'status', 'orders'],",
    "unindexed: ['orders', 'last_at_null'],",
    "sorts: ['name', 'orders', 'created_at', 'updated_at'],",
    "aggregates: { measures: ['orders'], groups: ['status'] },",
    "member: [{ status: 'active' }, { user_id: CALLER }]",
    "user: { to: users, local: 'user_id', foreign: 'id', many: false, filters: ['status'] },",
  ])
    t.ok(plugin.includes(line), `${line}\n${plugin}`)
  t.strictSame(
    [...plugin.matchAll(/app\.(\w+)\('(\S+)'/g)].map(([, method, path]) => `${method} ${path}`),
    ['get /customers', 'get /customers/aggregates', 'get /customers/:id'],
  )
})

t.test('every column is nullable without --fields, and a materialized view is one too', async (t) => {
  const { get } = await render(t, { key: 'user_id' }, CUSTOMERS.replace('view', 'materialized view'))
  t.match(get('drizzle/tables'), "pgMaterializedView('customers', {")
  t.match(get('drizzle/tables'), /name: text\(\),\n.*label: pg\.text\(\),/)
  t.match(get('plugins'), "unindexed: ['id', ", 'it has no index yet')
  const text = 'create materialized view customers as select id, status, created_at, updated_at from users'
  const { get: getOwn } = await render(
    t,
    { filters: 'status', fields: 'status:enum(active|suspended)' },
    text,
  )
  t.match(getOwn('plugins'), "unindexed: ['id', 'status'],")
})

t.test('the sentences fit a view whose name is no plural', async (t) => {
  const { get } = await render(t, { key: 'user_id', singular: 'Tenant', name: 'rent-roll' })
  const files = ['schemas', 'drizzle/tables', 'plugins', 'test'].map(get).join('\n')
  t.match(files, '/** Rent roll: read from a view. */')
  t.notMatch(files, /(?:which|roll) are/)
})

t.test('the rows of a view stand below a parent', async (t) => {
  const { get } = await render(t, { key: 'user_id', parent: 'users' })
  t.match(get('plugins'), "parent: { to: 'users', member: 'user_id' }")
  t.match(get('plugins'), "app.get('/users/:user_id/customers/:id', read(resource))")
  t.match(get('test'), /const path = `.users.\$\{adminId\}.customers`/)
})

t.test('what the view lacks is said', async (t) => {
  const refuse = async (message: RegExp, answers: Partial<Answers>, view?: string) =>
    t.rejects(render(t, answers, view), { message })
  await refuse(/^--from: the view customers has no column id of the type uuid; name its key/, {})
  await refuse(/^--key: the view customers has no column "name" of the type uuid; .*md5\(name\)::uuid$/, {
    key: 'name',
  })
  await refuse(
    /^--from: the view customers has no updated_at of the type timestamptz/,
    {},
    'create view customers as select id, created_at from users',
  )
  await refuse(
    /^--search: the view customers has no column search/,
    { search: 'name' },
    'create view customers as select id, name, created_at, updated_at from users',
  )
  const double = 'create view customers as select u.* from users u, generate_series(1, 2)'
  await refuse(
    /^--key: rows of customers share the id [0-9a-f-]+, which must be unique and not null$/,
    {},
    double,
  )
  await refuse(/^--from: rows of customers have no last_at; coalesce it/, {
    key: 'user_id',
    fields: 'last_at:timestamp',
  })
  await refuse(
    /^--fields: the view has no column "average" of a type .*average::bigint\n.*name: the column is of the type multiline, and not integer$/,
    {
      key: 'user_id',
      fields: 'average:integer, name:integer',
    },
  )
  await refuse(
    /^--sorts: label: it has the collation of the database; write label collate "C" in the view$/,
    {
      ...{ key: 'user_id', fields: FIELDS, sorts: 'label' },
    },
  )
  await refuse(/^--owner: the view has no column "customer_id" of the type uuid$/, {
    key: 'user_id',
    owner: 'customer_id:reads',
  })
})

t.test('options of resources that are written are refused together', async (t) => {
  const options = { states: 'a>b!', unique: 'name', actions: 'refunds', isRestorable: true } as const
  await t.rejects(render(t, { key: 'user_id', 'on-delete': 'cascade', fields: 'name:text!', ...options }), {
    name: 'UsageError',
    message: [
      ...['on-delete', 'states', 'unique', 'actions', 'restore'].map(
        (option) => `--${option}: customers is a view, which is only read`,
      ),
      '--fields: name: a view is only read; leave out "!", "=", readonly and computed',
    ].join('\n'),
  })
  await t.rejects(render(t, { key: 'user_id', owner: 'user_id', restrict: 'name:read=admin:write=admin' }), {
    message:
      '--owner: a view is only read; write :reads after the column or the path\n--restrict: a view is only read; leave out write=',
  })
  const database = await testDatabase(t)
  await t.rejects(readRelation(database, 'users', { name: 'people', key: 'email' }, resources), {
    message: '--key: users is a table, whose key is id',
  })
  await t.rejects(readRelation(database, 'customers', { name: 'customers' }, resources), {
    message: `--from: there is no table or view ${database.schema}.customers`,
  })
})
