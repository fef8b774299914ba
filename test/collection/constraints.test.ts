/** A definition says what violations of exclusion and check constraints mean to clients. */

import { sql } from 'drizzle-orm'
import { check, pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, moment } from '../../drizzle/columns.ts'
import { exampleId, Text, Timestamp } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { getViolations } from '../helpers/replies.ts'
import { createTable } from '../helpers/rows.ts'
import { define } from './adopted.ts'

const bookings = pgTable(
  'bookings',
  {
    ...common(),
    room_id: uuid().notNull(),
    starts_at: moment().notNull(),
    ends_at: moment().notNull(),
  },
  (table) => [check('bookings_order', sql`${table.starts_at} < ${table.ends_at}`)],
)

const all = { admin: true, member: true }
const bookingsResource = define(
  {
    name: 'bookings',
    singular: 'Booking',
    table: bookings,
    fields: {
      room_id: Text({ format: 'uuid', examples: [exampleId] }),
      starts_at: Timestamp('The start'),
      ends_at: Timestamp('The end'),
    },
  },
  {
    access: { list: all, read: all, create: all, update: all },
    constraints: {
      bookings_no_overlap: {
        code: 'ALREADY_EXISTS',
        fields: ['starts_at', 'ends_at'],
        message: 'The room is taken at this time',
      },
      bookings_order: { code: 'OUT_OF_RANGE', fields: ['ends_at'], message: 'must be after starts_at' },
    },
  },
)

const database = await testDatabase(t)
await createTable(database, bookings)
await database.run('create extension if not exists btree_gist')
await database.run(
  `alter table bookings add constraint bookings_order check (starts_at < ends_at),
     add constraint bookings_no_overlap
       exclude using gist (room_id with =, tstzrange(starts_at, ends_at) with &&)`,
)
const { admin, person } = await testApp(t, {}, { database, resources: [...resources, bookingsResource] })

const ROOM = '018f4e3a-7b1c-7d2e-9f30-000000000001'
const OTHER_ROOM = '018f4e3a-7b1c-7d2e-9f30-000000000002'
const at = (hour: number) => `2026-12-01T${String(hour).padStart(2, '0')}:00:00Z`
const booking = (from: number, to: number, room = ROOM) => ({
  room_id: room,
  starts_at: at(from),
  ends_at: at(to),
})

t.test('a row that an exclusion constraint refuses is 409, with the code and the fields', async (t) => {
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
})

t.test('a row that a check refuses is 422', async (t) => {
  const reply = await admin.post('/bookings', booking(14, 13))
  t.same([reply.status, getViolations(reply)], [422, ['ends_at OUT_OF_RANGE']])
})

t.test('of concurrent writes that overlap, one succeeds', async (t) => {
  const people = await Promise.all(Array.from({ length: 8 }, () => person('member')))
  for (let hour = 15; hour < 20; hour++) {
    const replies = await Promise.all(
      people.map(({ client }) => client.post('/bookings', booking(hour, hour + 1))),
    )
    t.same(replies.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)])
  }
})
