/** An import with `on_conflict` updates rows together, as PATCH would one after the other. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import {
  boolean,
  index,
  jsonb,
  numeric,
  pgTable,
  text as plainText,
  time,
  uniqueIndex,
} from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { common, folded, integer, moment, text } from '../../../database/src/columns.ts'
import {
  Decimal,
  Integer,
  Line,
  Nullable,
  OneOf,
  TimeOfDay,
  Timestamp,
} from '../../../http/src/schemas/types.ts'
import { type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { getViolations, listViolations } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { define } from './adopted.ts'

const STATES = ['new', 'used', 'broken'] as const

const parts = pgTable(
  'parts',
  {
    ...common(),
    code: text().notNull(),
    serial: integer().notNull(),
    name: text().notNull(),
    weight: numeric({ precision: 20, scale: 2 }),
    made_at: moment(),
    checked_at: time(),
    is_spare: boolean().notNull().default(false),
    tags: plainText().array(),
    size: jsonb().$type<{ width?: number; unit?: string }>(),
    state: text().$type<(typeof STATES)[number]>().notNull().default('new'),
    search: folded(),
  },
  (table) => [
    uniqueIndex('parts_code_unique').on(table.code),
    uniqueIndex('parts_serial_unique').on(table.serial),
    index('parts_created_at').on(table.created_at, table.id),
  ],
)

const fields = {
  code: Line(20, 'Unique', 'A-1'),
  serial: Integer(1, 1_000_000, { description: 'Unique', examples: [7] }),
  name: Line(100, 'The name', 'Cog'),
  weight: Nullable(Decimal(20, 2, { description: 'In grams', examples: ['5.00'] })),
  made_at: Nullable(Timestamp('The time of production')),
  checked_at: Nullable(TimeOfDay({ description: 'The time of the daily check', examples: ['09:30:00'] })),
  is_spare: Type.Boolean({ default: false, description: 'Whether it is a spare part', examples: [true] }),
  tags: Nullable(
    Type.Array(Line(20, 'A tag', 'brass'), { maxItems: 5, description: 'Tags', examples: [['brass']] }),
  ),
  size: Nullable(
    Type.Object(
      { width: Type.Optional(Type.Number()), unit: Type.Optional(Line(10, 'The unit', 'mm')) },
      { description: 'The size', examples: [{ width: 1.5, unit: 'mm' }] },
    ),
  ),
  state: OneOf(STATES, { title: 'PartState', default: 'new', description: 'The state', examples: ['used'] }),
}

const all = { admin: true } as const
const partsResource = define(
  { name: 'parts', singular: 'Part', table: parts, fields },
  {
    filters: ['code'],
    sorts: { created_at: parts.created_at },
    search: ['name'],
    access: { list: all, read: all, create: all, update: all },
    transitions: { state: { new: ['used'], used: ['broken'], broken: [] } },
  },
)

const own = await testDatabase(t)
await createTable(own, parts)
await own.execute(sql`create unique index parts_code_unique on ${parts} (code)`)
await own.execute(sql`create unique index parts_serial_unique on ${parts} (serial)`)
const statements = overhear(own)
const overrides = { database: statements.database, resources: [...resources, partsResource] }
const { admin } = await testApp(t, {}, overrides)
/** Returns the changes of a request, in their order. */
const readOwnChanges = async ({ headers }: Reply) =>
  (await readChanges(own)).filter(({ request_id }) => request_id === headers.get('x-request-id'))

let serial = 0
const createPart = async (values: Json = {}): Promise<Json> => {
  serial += 1
  const body = {
    code: `C-${serial}`,
    serial,
    name: 'Cog',
    weight: '123456789012345678.91',
    made_at: '2026-01-02T03:04:05.678Z',
    checked_at: '09:30:00',
    tags: ['brass', 'a "b", {c}'],
    size: { width: 1.5, unit: 'mm' },
    ...values,
  }
  const reply = await admin.post('/parts', body)
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}
const importParts = (rows: readonly Json[]): Promise<Reply> =>
  admin.call('POST', '/parts?on_conflict=code', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: rows.map((row) => JSON.stringify(row)).join('\n'),
  })
const read = async (id: string): Promise<Json> => (await admin.get(`/parts/${id}`)).body.data

const CHANGES: readonly Json[] = [
  { name: 'Wheel' },
  { weight: '0.10', name: 'Ärm' },
  { weight: null, made_at: null, checked_at: null, tags: null, size: null },
  { made_at: '2026-11-24T00:00:00.001Z', checked_at: '23:59:59' },
  { made_at: '2026-01-02T03:04:05.678Z' },
  { is_spare: true, state: 'used' },
  { tags: ['', 'NULL', 'a\\b', '日本'].slice(1) },
  { size: { width: 2 } },
  { size: { unit: 'cm' } },
  {},
  { serial: 500_001, name: 'Axle' },
]

t.test('the rows, their revisions and their events are those of PATCH', async (t) => {
  const singles: Json[] = []
  const imported: Json[] = []
  for (const _ of CHANGES) {
    singles.push(await createPart())
    imported.push(await createPart())
  }
  for (const [i, body] of CHANGES.entries()) {
    const reply = await admin.patch(`/parts/${singles[i]?.id}`, body)
    t.equal(reply.status, 200, reply.text)
  }
  const rows = CHANGES.map((body, i) => ({
    ...body,
    code: imported[i]?.code,
    ...(body.serial && { serial: body.serial + 1 }),
  }))
  const reply = await importParts(rows)
  t.same(reply.body.data, { created: 0, updated: 9, unchanged: 2 }, reply.text)
  for (const [i, { id }] of imported.entries()) {
    const withoutOwn = ({ id: _, code, serial: __, created_at, updated_at, ...rest }: Json) => rest
    const single = singles[i] ?? {}
    t.same(withoutOwn(await read(id)), withoutOwn(await read(single.id)), JSON.stringify(CHANGES[i]))
    const [changes, expected] = [await readChanges(own, id), await readChanges(own, single.id)]
    t.equal(changes.length, expected.length)
    for (const [j, { type, revision, columns, previous }] of changes.entries()) {
      const other = expected[j]
      t.same([type, revision], [other?.type, other?.revision])
      t.same(withoutOwn(columns ?? {}), withoutOwn(other?.columns ?? {}))
      t.same(Object.keys(previous ?? {}).sort(), Object.keys(other?.previous ?? {}).sort())
      t.same(withoutOwn(previous ?? {}), withoutOwn(other?.previous ?? {}))
    }
  }
  const [found] = await own.run('select search from parts where code = $1', [imported[1]?.code])
  t.equal(found?.search, 'ärm', 'the search text follows')
})

t.test('rows that change different members are one statement, with events in their order', async (t) => {
  const created: Json[] = []
  for (let i = 0; i < 40; i++) created.push(await createPart())
  // The order of the file is neither that of the ids nor that of the table.
  const order = created.toReversed()
  statements.take()
  const rows = order.map(({ code }, i) => ({ code, ...(i % 2 ? { name: 'Wheel' } : { is_spare: true }) }))
  const reply = await importParts(rows)
  t.same(reply.body.data, { created: 0, updated: 40, unchanged: 0 }, reply.text)
  const updates = statements.take().statements.filter((text) => text.includes('update "parts"'))
  t.equal(updates.length, 1)
  const changes = await readOwnChanges(reply)
  t.same(
    changes.map(({ resource_id }) => resource_id),
    order.map(({ id }) => id),
  )
})

t.test('unique values are taken and given up in the order of the rows', async (t) => {
  const [first, second] = [await createPart(), await createPart()]
  const refused = await importParts([
    { code: first.code, serial: second.serial, name: 'Wheel' },
    { code: second.code, serial: 600_001 },
  ])
  t.same(listViolations(refused), ['rows.1.serial ALREADY_EXISTS'])
  t.same(await read(first.id), first)
  const accepted = await importParts([
    { code: second.code, serial: 600_001 },
    { code: first.code, serial: second.serial, name: 'Wheel' },
  ])
  t.same(accepted.body.data, { created: 0, updated: 2, unchanged: 0 }, accepted.text)
  t.match(await read(first.id), { serial: second.serial, name: 'Wheel' })
})

t.test(
  'a row that may not change is reported alone, and new rows between others keep their place',
  async (t) => {
    const [first, second] = [await createPart(), await createPart({ state: 'used' })]
    const rows = [
      { code: first.code, name: 'Wheel' },
      { code: 'NEW-1', serial: 700_001, name: 'Axle' },
      { code: second.code, state: 'new' },
    ]
    t.same(listViolations(await importParts(rows)), ['rows.3.state INVALID_TRANSITION'])
    t.same(await read(first.id), first)
    const reply = await importParts([...rows.slice(0, 2), { code: second.code, name: 'Wheel' }])
    t.same(reply.body.data, { created: 1, updated: 2, unchanged: 0 }, reply.text)
    const changes = await readOwnChanges(reply)
    t.same(
      changes.map(({ type }) => type),
      ['parts.updated', 'parts.created', 'parts.updated'],
    )
  },
)

t.test('slow work is done once for each row, also if rows fail', async (t) => {
  const prepared: unknown[] = []
  const slow = serve(partsResource, {
    create: {
      async prepare({ body }) {
        prepared.push(body.code)
        return { columns: {} }
      },
    },
  })
  const own = { database: statements.database, resources: [...resources, slow] }
  const { admin } = await testApp(t, {}, own)
  const rows = ['S-1', 'S-2', 'S-3', 'S-4'].map((code, i) => ({
    code,
    serial: 812_345 + (i % 3) * 10,
    name: 'Cog',
  }))
  const reply = await admin.call('POST', '/parts', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: rows.map((row) => JSON.stringify(row)).join('\n'),
  })
  t.same([reply.status, getViolations(reply)], [422, ['rows.4.serial ALREADY_EXISTS']])
  t.same(prepared, ['S-1', 'S-2', 'S-3', 'S-4'])
})
