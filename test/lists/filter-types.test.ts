/** Filters and ranges take the values that the type of the field allows. */
import { Type } from '@sinclair/typebox'
import { boolean, doublePrecision, index, pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, moment, text } from '../../drizzle/columns.ts'
import { defineResource } from '../../plugins/collection/definition.ts'
import { common as commonFields, Id, Nothing, Text, Timestamp } from '../../schemas/types.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { getIds, getViolations } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'

const readings = pgTable(
  'readings',
  {
    ...common(),
    name: text().notNull(),
    is_valid: boolean().notNull(),
    level: doublePrecision(),
    taken_at: moment(),
  },
  (t) => [
    index('readings_created_at').on(t.created_at, t.id),
    index('readings_is_valid').on(t.is_valid, t.created_at, t.id),
    index('readings_name').on(t.name, t.created_at, t.id),
    index('readings_level').on(t.level, t.created_at, t.id),
  ],
)

const fields = {
  id: Id(),
  name: Text({ maxLength: 20 }),
  is_valid: Type.Boolean(),
  level: Type.Unsafe<number | null>({ type: ['number', 'null'] }),
  taken_at: Type.Unsafe<string | null>({ ...Timestamp('The time'), type: ['string', 'null'] }),
  ...commonFields,
}

const Reading = Type.Object(fields, { title: 'Reading' })

const readingsResource = defineResource({
  name: 'readings',
  singular: 'Reading',
  plural: 'Readings',
  description: 'What a sensor measures',
  table: readings,
  verbs: ['list'],
  schemas: { read: Reading, create: Nothing, change: Nothing },
  filters: ['name', 'is_valid', 'level'],
  ranges: ['level', 'taken_at'],
  // A list by it is read once a month.
  unindexed: ['taken_at'],
  sorts: { created_at: readings.created_at },
  search: [],
  relations: {},
  access: { list: { admin: true } },
})

const database = await testDatabase(t)
await database.run(
  `create table readings (id uuid primary key, created_at timestamptz(6) not null default now(),
     updated_at timestamptz(6) not null default now(), revision bigint not null default 1,
     name text collate "C" not null, is_valid boolean not null, level double precision, taken_at timestamptz(6))`,
)
const ids = await insertRows(database, 'readings', [
  { name: 'É', is_valid: true, level: 1, taken_at: '2025-01-01T00:00:00.000001Z' },
  { name: 'a, b', is_valid: false, level: 2.5, taken_at: '2025-01-01T00:00:00.000002Z' },
  { name: 'b', is_valid: false, level: -3e300, taken_at: '2025-01-01T00:00:00.000003Z' },
  { name: 'c', is_valid: true, level: null, taken_at: null },
])
const { admin } = await testApp(t, {}, { database, resources: [readingsResource] })
const find = async (query: string) => {
  const reply = await admin.get(`/readings?${query}`)
  if (reply.status === 400) return getViolations(reply)
  return getIds(reply)
    .map((id) => ids.indexOf(id))
    .sort()
}

t.test('a boolean is true or false', async (t) => {
  t.same(await find('is_valid=true'), [0, 3])
  t.same(await find('is_valid=false'), [1, 2])
  t.same(await find('is_valid=false,true'), [0, 1, 2, 3])
  for (const value of ['', '1', '0', 'TRUE', 'null', 'yes', 'true,1', 'true,']) {
    t.same(await find(`is_valid=${value}`), ['is_valid INVALID_TYPE'], value)
  }
})

t.test('a number is written as in JSON', async (t) => {
  t.same(await find('level=2.5'), [1])
  t.same(await find('level=1.0,-3e300,0.5e-3,25e-1'), [0, 1, 2])
  t.same(await find('level_min=1&level_max=2.5'), [0, 1])
  t.same(await find('level_max=2.4e0'), [0, 2], 'null is within no limits')
  for (const value of ['+1', '01', '.5', '1.', '0x1', 'Infinity', 'NaN', '1e', ' 1', 'null', '']) {
    t.same(await find(`level=${encodeURIComponent(value)}`), ['level INVALID_TYPE'], value)
  }
  t.same(await find('level_min=3&level_max=2.9'), ['level_min CONFLICTING_PARAMETERS'])
})

t.test('a text is normalized like the field', async (t) => {
  t.same(await find('name=E%CC%81'), [0], 'NFC')
  t.same(await find('name=%20b%20,%C3%89'), [0, 2], 'trimmed')
  t.same(await find('name=a,%20b'), [2], 'a comma separates values')
  t.same(await find(`name=e${'%CC%81'.repeat(40)}`), ['name INVALID_FORMAT'])
  t.same(await find(`name=${'a'.repeat(21)}`), ['name TOO_LONG'])
  t.same(await find('name=%20'), ['name TOO_SHORT'])
})

t.test('a range of times takes times, both inclusive, and rounds towards its inside', async (t) => {
  const at = '2025-01-01T00:00:00.00000'
  t.same(await find(`taken_at_min=${at}2Z&taken_at_max=${at}2Z`), [1])
  t.same(await find(`taken_at_min=${at}11Z&taken_at_max=${at}299Z`), [1])
  t.same(await find('taken_at_min=0001-01-01T00:00:00Z'), [0, 1, 2])
  t.same(await find('taken_at_min=2025-01-01'), ['taken_at_min INVALID_FORMAT'])
})
