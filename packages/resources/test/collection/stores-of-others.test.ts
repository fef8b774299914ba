/** An action writes rows of another resource through its store, as requests do; and a guard reads other rows. */
import { Type } from '@sinclair/typebox'
import { eq } from 'drizzle-orm'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { apiError } from '../../../api/src/errors/errors.ts'
import { exampleId, Integer, OneOf, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import type { Connection } from '../../../database/src/client/types.ts'
import { common, folded, integer, moment, text } from '../../../database/src/columns.ts'
import { userId } from '../../../database/src/user-tables.ts'
import { type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import type { OtherStore } from '../../src/definition/store.ts'
import { define } from './adopted.ts'

const treatments = pgTable('treatments', {
  ...common(),
  status: text().notNull(),
  starts_at: moment().notNull(),
  note: text().notNull(),
})
const visitId = () => uuid().references(() => treatments.id)
const invoices = pgTable('invoices', {
  ...common(),
  user_id: userId(),
  visit_id: visitId().notNull(),
  status: text().notNull(),
  visited_at: moment().notNull(),
  amount: integer().notNull(),
  number: text().notNull(),
  text: text().notNull(),
  search: folded(),
})

const all = { admin: true, member: true }
const admins = { admin: true }
const Reference = Text({ format: 'uuid', examples: [exampleId] })

/** What the next action does with the invoices. */
let work: (store: OtherStore<typeof invoices.$inferSelect>, visit: Json) => Promise<unknown> = async () => {}

const countInvoices = (connection: Connection, visitId: string) =>
  connection.$count(invoices, eq(invoices.visit_id, visitId))

const visitFields = {
  status: OneOf(['planned', 'done'], { default: 'planned', description: 'The state' }),
  starts_at: Timestamp('The start'),
  note: Text({ default: '', maxLength: 20 }),
}
const treatmentsResource = serve(
  define(
    { name: 'treatments', singular: 'Visit', table: treatments, fields: visitFields },
    {
      access: { list: all, read: all, create: all, update: all, remove: all },
    },
  ),
  {
    change: {
      async guard({ current, changed, connection }) {
        if (changed.has('starts_at') && (await countInvoices(connection, String(current.id))) > 0)
          throw apiError('RESOURCE_CONFLICT', { message: 'The visit has an invoice' })
      },
      async run({ store, current, next }) {
        const changed = await store.update(current, next)
        await work(store.of(invoices), changed)
        return changed
      },
    },
    remove: {
      async run({ store, current }) {
        await work(store.of(invoices), current)
        await store.remove(current)
      },
    },
  },
)
const invoiceFields = {
  visited_at: Timestamp('The time of the visit'),
  status: OneOf(['open', 'paid', 'void'], { default: 'open', description: 'The state' }),
  amount: Integer(0, 1000),
  text: Text({ default: 'Thank you', maxLength: 20 }),
}
const invoiceKind = define(
  {
    ...{ name: 'invoices', singular: 'Invoice', table: invoices },
    fields: { visit_id: Reference, ...invoiceFields },
    readOnly: { user_id: Reference, number: Text({ maxLength: 10 }) },
  },
  {
    access: { list: admins, read: admins, update: admins, create: {} },
    defaults: ({ userId }) => ({ user_id: userId }),
    immutable: ['visit_id'],
    search: ['text'],
    transitions: { status: { open: ['paid', 'void'], paid: [], void: [] } },
    check: ({ amount, text: line }) =>
      amount === 0 && line !== 'Free'
        ? [{ field: 'amount', message: 'must not be 0', code: 'OUT_OF_RANGE' }]
        : [],
  },
)
const change = Type.Object(invoiceFields, { title: 'InvoiceChange' })
const invoicesResource = { ...invoiceKind, schemas: { ...invoiceKind.schemas, change } }

const database = await testDatabase(t)
for (const table of [treatments, invoices]) await createTable(database, table)
const served = [...resources, treatmentsResource, invoicesResource]
const { admin, person } = await testApp(t, {}, { database, resources: served })
const member = await person('member')

const newVisit = async (): Promise<Json> =>
  (await member.client.post('/treatments', { starts_at: '2026-12-01T09:00:00Z' })).body.data
const getInvoices = async (visit: Json): Promise<Json[]> =>
  (await admin.get('/invoices?limit=100')).body.data.filter(({ visit_id }: Json) => visit_id === visit.id)
const finish = (visit: Json) => member.client.patch(`/treatments/${visit.id}`, { status: 'done' })

const toInvoice = ({ id, starts_at }: Json) => ({
  visit_id: id,
  visited_at: starts_at,
  amount: 5,
  number: '1',
})
const invoice: typeof work = (store, visit) => store.create(toInvoice(visit))

t.test('a created row has its id, defaults, read-only fields, search text and event', async (t) => {
  work = invoice
  const visit = await newVisit()
  t.equal((await finish(visit)).status, 200)
  const [made, another] = await getInvoices(visit)
  t.equal(another, undefined)
  t.match(made, {
    ...{ user_id: member.id, visit_id: visit.id, visited_at: '2026-12-01T09:00:00.000Z', status: 'open' },
    ...{ amount: 5, number: '1', text: 'Thank you' },
  })
  t.ok((await admin.get('/invoices?search=thank')).body.data.some(({ id }: Json) => id === made?.id))
  const readEvents = async (): Promise<Json[]> =>
    (await admin.get(`/events?resource_id=${made?.id}`)).body.data
  await waitUntil(async () => (await readEvents()).length > 0)
  t.match(await readEvents(), [{ type: 'invoices.created', actor_id: member.id }])
})

t.test('an invalid row rolls the write back, with the fields of the other resource', async (t) => {
  for (const [fields, violation] of [
    [{ amount: 1001 }, 'invoices.amount OUT_OF_RANGE'],
    [{ amount: 0 }, 'invoices.amount OUT_OF_RANGE'],
    [{ number: '12345678901' }, 'invoices.number TOO_LONG'],
    [{ visit_id: UNKNOWN_ID }, 'invoices.visit_id NOT_FOUND'],
    [{ visited_at: 'soon' }, 'invoices.visited_at INVALID_FORMAT'],
  ] as const) {
    work = (store, visit) => store.create({ ...toInvoice(visit), ...fields })
    const visit = await newVisit()
    const reply = await finish(visit)
    t.same([reply.status, getViolations(reply)], [422, [violation]])
    t.equal((await admin.get(`/treatments/${visit.id}`)).body.data.status, 'planned')
  }
})

t.test('a change follows the states and keeps immutable fields', async (t) => {
  const change = async (fields: Parameters<OtherStore<typeof invoices.$inferSelect>['change']>[1]) => {
    const visit = await newVisit()
    work = async (store) => {
      const { id } = await store.create({ ...toInvoice(visit), status: 'paid' })
      await store.change(id, fields)
    }
    return { visit, reply: await finish(visit) }
  }
  const { visit, reply } = await change({ number: '2', status: 'paid', text: 'Paid' })
  t.equal(reply.status, 200)
  t.match(await getInvoices(visit), [{ number: '2', status: 'paid', text: 'Paid' }])
  const wrong = (await change({ status: 'void' })).reply
  t.same([wrong.status, getViolations(wrong)], [409, ['invoices.status INVALID_TRANSITION']])
  const moved = (await change({ visit_id: UNKNOWN_ID })).reply
  t.same([moved.status, getViolations(moved)], [422, ['invoices.visit_id READ_ONLY']])
})

t.test('rows are found and removed; an unknown one is 404', async (t) => {
  work = invoice
  const visit = await newVisit()
  await finish(visit)
  const [made] = await getInvoices(visit)
  work = async (store) => {
    t.match(await store.find(made?.id), { id: made?.id, amount: 5 })
    t.equal(await store.find(UNKNOWN_ID), undefined)
    await store.remove(made?.id)
  }
  t.equal((await member.client.delete(`/treatments/${visit.id}`)).status, 204)
  t.same(await getInvoices(visit), [])
  const next = await newVisit()
  work = (store) => store.remove(UNKNOWN_ID)
  const reply = await member.client.delete(`/treatments/${next.id}`)
  t.match([reply.status, reply.body.error.message], [404, /invoice/])
  t.equal((await admin.get(`/treatments/${next.id}`)).status, 200)
})

t.test('in a batch, each row that an operation creates elsewhere has an id of its own', async (t) => {
  work = async (store, visit) => {
    const { id } = await store.create(toInvoice(visit))
    await store.create(toInvoice(visit))
    await store.change(id.toUpperCase(), { number: '2' })
  }
  const visit = await newVisit()
  const operations = [{ method: 'PATCH', path: `/treatments/${visit.id}`, body: { status: 'done' } }]
  const reply = await member.client.post('/batches', { operations })
  t.equal(reply.status, 200, reply.text)
  const made = await getInvoices(visit)
  t.same(made.map(({ number }) => number).toSorted(), ['1', '2'])
})

t.test('as in a request, fields are checked before the row is looked for', async (t) => {
  work = (store) => store.change(UNKNOWN_ID, { amount: 1001 })
  const reply = await finish(await newVisit())
  t.same([reply.status, getViolations(reply)], [422, ['invoices.amount OUT_OF_RANGE']])
})

t.test('a change of read-only fields and columns to the values that they have writes nothing', async (t) => {
  work = async (store, visit) => {
    const { id, number, text, search, visited_at } = await store.create(toInvoice(visit))
    const same = await store.change(id, { number, text, search, visited_at })
    t.equal(same.revision, 1)
    t.match(await store.change(id, { number: '3' }), { number: '3', revision: 2, amount: 5, status: 'open' })
  }
  t.equal((await finish(await newVisit())).status, 200)
})

t.test('a guard reads other rows', async (t) => {
  work = async () => {}
  const visit = await newVisit()
  const move = () => member.client.patch(`/treatments/${visit.id}`, { starts_at: '2026-12-02T09:00:00Z' })
  t.equal((await move()).status, 200)
  work = invoice
  await finish(visit)
  work = async () => {}
  const moved = await member.client.patch(`/treatments/${visit.id}`, { starts_at: '2026-12-03T09:00:00Z' })
  t.match([moved.status, moved.body.error.message], [409, 'The visit has an invoice'])
})

t.test('with an Idempotency-Key, the other row is created once', async (t) => {
  work = invoice
  const visit = await newVisit()
  const key = { 'idempotency-key': 'finish-1' }
  for (const _ of [1, 2]) {
    t.equal((await member.client.patch(`/treatments/${visit.id}`, { status: 'done' }, key)).status, 200)
  }
  t.equal((await getInvoices(visit)).length, 1)
})
