/** Violations of unique indexes, exclusion and check constraints are 409 or 422, and name all their fields, but no other column. */
import { sql } from 'drizzle-orm'
import { check, foreignKey, pgTable, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { common, moment, text } from '../../../database/src/columns.ts'
import { userId, users } from '../../../database/src/user-tables.ts'
import { exampleId, Id, Nullable, Text, Timestamp } from '../../../http/src/schemas/types.ts'
import { type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { findConflictColumns } from '../../src/collection/sql/constraint-errors.ts'
import { define } from './adopted.ts'

const bookings = pgTable(
  'bookings',
  { ...common(), room_id: uuid().notNull(), starts_at: moment().notNull(), ends_at: moment().notNull() },
  (table) => [check('bookings_order', sql`${table.starts_at} < ${table.ends_at}`)],
)
const pages = pgTable(
  'pages',
  {
    ...common(),
    user_id: userId(),
    slug: text().notNull(),
    language: text().notNull(),
    title: text().notNull(),
    short_name: text().notNull().unique(),
    secret: text().notNull().default('secret'),
  },
  (t) => [
    uniqueIndex('pages_address').on(t.user_id, t.language, t.slug),
    uniqueIndex('pages_title').on(t.user_id, sql`lower(${t.title})`),
    uniqueIndex('pages_secret').on(t.secret).where(sql`${t.title} like 'Secret%'`),
    unique('pages_names').on(t.short_name, t.language),
  ],
)
/** Drizzle knows no key of it. */
const nodes = pgTable('nodes', {
  ...common(),
  node_id: uuid(),
  meter: text(),
  site: text(),
  secret: text().notNull().default('known'),
})
const CONSTRAINTS = [
  'create schema legacy',
  'create table legacy.meters (meter text, site text, primary key (meter, site))',
  'create table legacy.secrets (secret text primary key)',
  `insert into legacy.secrets values ('known')`,
  `alter table nodes add constraint nodes_self foreign key (node_id) references nodes,
     add constraint nodes_meter foreign key (meter, site) references legacy.meters,
     add constraint nodes_secret foreign key (secret) references legacy.secrets`,
  'create extension if not exists btree_gist',
  `alter table bookings add constraint bookings_order check (starts_at < ends_at),
     add constraint bookings_no_overlap exclude using gist (room_id with =, tstzrange(starts_at, ends_at) with &&)`,
  'create unique index pages_address on pages (user_id, language, slug)',
  'create unique index pages_title on pages (user_id, lower(title))',
  `create unique index pages_secret on pages (secret) where title like 'Secret%'`,
  `alter table pages add constraint pages_short_name_unique unique (short_name),
     add constraint pages_names unique (short_name, language)`,
]

const all = { admin: true, member: true }
const access = { list: all, read: all, create: all, update: all, remove: all }
const Field = Text({ minLength: 1, examples: ['tea'] })
const definitions = [
  define(
    {
      ...{ name: 'bookings', singular: 'Booking', table: bookings },
      fields: {
        room_id: Text({ format: 'uuid', examples: [exampleId] }),
        starts_at: Timestamp('The start'),
        ends_at: Timestamp('The end'),
      },
    },
    {
      access,
      constraints: {
        bookings_no_overlap: {
          code: 'ALREADY_EXISTS',
          fields: ['starts_at', 'ends_at'],
          message: 'The room is taken at this time',
        },
        bookings_order: { code: 'OUT_OF_RANGE', fields: ['ends_at'], message: 'must be after starts_at' },
      },
    },
  ),
  define(
    {
      ...{ name: 'pages', singular: 'Page', table: pages, readOnly: { user_id: Id() } },
      fields: { slug: Field, language: Field, title: Field, short_name: Field },
    },
    { parent: { to: 'users', member: 'user_id' }, access },
  ),
  define(
    {
      ...{ name: 'nodes', singular: 'Node', table: nodes },
      fields: {
        node_id: Nullable(Text({ format: 'uuid', examples: [exampleId] })),
        meter: Nullable(Field),
        site: Nullable(Field),
      },
    },
    { access },
  ),
]

const database = await testDatabase(t)
for (const table of [bookings, pages, nodes]) await createTable(database, table)
for (const statement of CONSTRAINTS) await database.run(statement)
const { admin, person } = await testApp(t, {}, { database, resources: [...resources, ...definitions] })

const ROOM = '018f4e3a-7b1c-7d2e-9f30-000000000001'
const OTHER_ROOM = '018f4e3a-7b1c-7d2e-9f30-000000000002'
const at = (hour: number) => `2026-12-01T${String(hour).padStart(2, '0')}:00:00Z`
const booking = (from: number, to: number, room_id = ROOM) => ({
  ...{ room_id, starts_at: at(from), ends_at: at(to) },
})

t.test(
  'a row that an exclusion constraint or a check refuses has the code and the fields of it',
  async (t) => {
    t.equal((await admin.post('/bookings', booking(9, 10))).status, 201)
    const reply = await admin.post('/bookings', booking(9, 11))
    t.match([reply.status, reply.body.error], [409, { message: 'The room is taken at this time' }])
    t.same(getViolations(reply), ['ends_at ALREADY_EXISTS', 'starts_at ALREADY_EXISTS'])
    const v2 = await admin.post('/v2/bookings', { data: { type: 'bookings', attributes: booking(9, 11) } })
    t.match(v2.body.error.errors[0], { field: 'data.attributes.starts_at', code: 'ALREADY_EXISTS' })
    t.equal((await admin.post('/bookings', booking(10, 11))).status, 201, 'the time after it')
    const other = await admin.post('/bookings', booking(9, 11, OTHER_ROOM))
    t.equal(other.status, 201, 'another room')
    const moved = await admin.patch(`/bookings/${other.body.data.id}`, { room_id: ROOM })
    t.same([moved.status, getViolations(moved).length], [409, 2], 'a change')
    const operations = [1, 2].map(() => ({ method: 'POST', path: '/bookings', body: booking(7, 8) }))
    const batch = await admin.post('/batches', { operations })
    t.same([batch.status, getViolations(batch)[0]], [409, 'operations.1.body.ends_at ALREADY_EXISTS'])
    const late = await admin.post('/bookings', booking(14, 13))
    t.same([late.status, getViolations(late)], [422, ['ends_at OUT_OF_RANGE']])
  },
)

t.test('of concurrent writes that overlap, one succeeds', async (t) => {
  const people = await Promise.all(Array.from({ length: 8 }, () => person('member')))
  for (let hour = 15; hour < 20; hour++) {
    const body = booking(hour, hour + 1)
    const replies = await Promise.all(people.map(({ client }) => client.post('/bookings', body)))
    t.same(replies.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)])
  }
})

t.test('a conflict names the fields of the violated index', async (t) => {
  const page = { slug: 'tea', language: 'en', title: 'Tea', short_name: 'tea' }
  const create = async (changed: Partial<typeof page>) => {
    const { status, body } = await admin.post('/users/me/pages', { ...page, ...changed })
    t.equal(status, 201)
    return body.data
  }
  const conflict = async (changed: Partial<typeof page>): Promise<Json> => {
    const { status, body } = await admin.post('/users/me/pages', { ...page, ...changed })
    t.match({ status, code: body.error?.code }, { status: 409, code: 'RESOURCE_CONFLICT' })
    return body.error
  }
  const code = 'ALREADY_EXISTS'
  const together = (field: string, others: string) => ({
    ...{ field, message: `is taken together with ${others}`, code },
  })
  await create({})
  const byAddress = await conflict({ title: 'Other', short_name: 'other' })
  t.equal(byAddress.message, 'The combination of user_id, language, slug is taken')
  t.same(byAddress.details, [
    together('user_id', 'language, slug'),
    together('language', 'user_id, slug'),
    together('slug', 'user_id, language'),
  ])
  const attributes = { ...page, title: 'Other', short_name: 'other' }
  const typed = await admin.post('/v2/users/me/pages', { data: { type: 'pages', attributes } })
  t.same(
    typed.body.error.errors.map(({ field }: Json) => field),
    ['user_id', 'language', 'slug'].map((name) => `data.attributes.${name}`),
  )
  const { id } = await create({ slug: 'te', title: 'Te', short_name: 'te' })
  const moved = await admin.patch(`/users/me/pages/${id}`, { slug: 'tea' })
  t.same([moved.status, moved.body.error.details.length], [409, 3], 'a change conflicts, too')

  const single = await conflict({ slug: 'x', title: 'A', language: 'de' })
  t.equal(single.message, 'The short_name is taken')
  t.same(single.details, [{ field: 'short_name', message: 'is taken', code }])
  const byExpression = await conflict({ slug: 'x', title: 'TEA', short_name: 'b' })
  t.same(byExpression.details, [together('user_id', 'title'), together('title', 'user_id')])

  // A column that is no field is not named.
  await create({ slug: 's', title: 'Secret 1', short_name: 's1' })
  const hidden = await conflict({ slug: 's2', title: 'Secret 2', short_name: 's2' })
  t.notMatch(JSON.stringify(hidden), 'secret')
  t.notOk(hidden.details?.length)
})

t.test('a foreign key that only the database has names its columns', async (t) => {
  const post = (body: object) => admin.post('/nodes', body)
  const { id } = (await post({})).body.data
  const missing = { meter: 'M', site: 'S' }
  for (const write of [post, (body: object) => admin.patch(`/nodes/${id}`, body)]) {
    const one = await write({ node_id: UNKNOWN_ID })
    t.same([one.status, getViolations(one)], [422, ['node_id NOT_FOUND']])
    const both = await write(missing)
    t.same([both.status, getViolations(both)], [422, ['meter NOT_FOUND', 'site NOT_FOUND']])
  }
  const operations = [{ method: 'POST', path: '/nodes', body: missing }]
  t.same(getViolations(await admin.post('/batches', { operations })), [
    'operations.0.body.meter NOT_FOUND',
    'operations.0.body.site NOT_FOUND',
  ])
  const rows = await admin.call('POST', '/nodes', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: `{}\n${JSON.stringify({ node_id: UNKNOWN_ID })}\n`,
  })
  t.same(getViolations(rows), ['rows.2.node_id NOT_FOUND'])
  const child = await post({ node_id: id })
  t.equal(child.status, 201)
  const refused = await admin.delete(`/nodes/${id}`)
  t.match([refused.status, refused.body.error.message], [409, 'Resources in nodes still refer to this one'])
  t.equal((await admin.delete(`/nodes/${child.body.data.id}`)).status, 204)
  await database.run(`alter table nodes alter secret set default 'gone'`)
  const hidden = await post({})
  t.same([hidden.status, getViolations(hidden)], [422, []])
  t.notMatch(hidden.text, 'secret')
})

t.test('changes of unique columns keep their order', async (t) => {
  const shelves = pgTable(
    'shelves',
    { ...common(), room: text(), row: text(), owner_id: uuid(), code: text(), label: text() },
    (t) => [
      uniqueIndex('shelves_code').on(t.code),
      foreignKey({ columns: [t.room, t.row], foreignColumns: [pages.slug, pages.language] }),
      foreignKey({ columns: [t.owner_id], foreignColumns: [users.id] }),
    ],
  )
  t.same([...findConflictColumns({ table: shelves })].sort(), ['code', 'id'])
  t.ok(findConflictColumns({ table: pages }).has('title'), 'each column of a partial unique index')
})
