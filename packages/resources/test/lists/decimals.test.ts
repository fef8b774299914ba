/** Decimals and times of day: exact in bodies and in events, compared by value in ranges and sorts. */
import { sql } from 'drizzle-orm'
import { index, numeric, pgTable, time } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { Decimal, Nullable, TimeOfDay } from '../../../api/src/schemas/types.ts'
import { common } from '../../../database/src/columns.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { getViolations, readPages } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { define } from '../collection/adopted.ts'

const dosages = pgTable(
  'dosages',
  {
    ...common(),
    amount: numeric({ precision: 20, scale: 2 }).notNull(),
    rate: numeric({ precision: 5, scale: 4 }),
    at: time().notNull(),
  },
  (table) => [
    index('dosages_created_at').on(table.created_at, table.id),
    index('dosages_amount').on(table.amount, table.id),
    index('dosages_rate_asc').on(sql`(coalesce(${table.rate}, 'Infinity'::numeric))`, table.id),
    index('dosages_rate_desc').on(sql`(coalesce(${table.rate}, '-Infinity'::numeric))`, table.id),
    index('dosages_at').on(table.at, table.id),
  ],
)

const fields = {
  amount: Decimal(20, 2, { description: 'The amount', examples: ['5.00'] }),
  rate: Nullable(Decimal(5, 4, { description: 'The rate', examples: ['0.5000'] })),
  at: TimeOfDay({ description: 'The time of day', examples: ['09:30:00'] }),
}

const everybody = { admin: true } as const

const dosagesResource = define(
  { name: 'dosages', singular: 'Dosage', table: dosages, fields },
  {
    filters: ['amount'],
    ranges: ['amount', 'at'],
    sorts: {
      amount: dosages.amount,
      at: dosages.at,
      rate: {
        column: dosages.rate,
        ascending: sql`coalesce(${dosages.rate}, 'Infinity'::numeric)`,
        descending: sql`coalesce(${dosages.rate}, '-Infinity'::numeric)`,
        nulls: { ascending: 'Infinity', descending: '-Infinity' },
      },
      created_at: dosages.created_at,
    },
    access: { list: everybody, read: everybody, create: everybody, update: everybody },
  },
)

const database = await testDatabase(t)
await createTable(database, dosages)
const { admin } = await testApp(t, {}, { database, resources: [...resources, dosagesResource] })

const AMOUNTS = ['9.50', '-10.00', '123456789012345678.91', '10.00']
const created: Json[] = []
for (const [i, amount] of AMOUNTS.entries()) {
  const rate = i === 0 ? null : `0.000${i}`
  created.push((await admin.post('/dosages', { amount, rate, at: `0${i}:00:00` })).body.data)
}
const listAmounts = async (query: string) =>
  (await admin.get(`/dosages?${query}`)).body.data.map(({ amount }: Json) => amount)

t.test('a decimal keeps all its digits, in replies and in events', async (t) => {
  t.same(
    created.map(({ amount }) => amount),
    AMOUNTS,
  )
  const [, , { id }] = created
  const changed = await admin.patch(`/dosages/${id}`, { rate: '0.1000' })
  t.match(changed.body.data, { amount: AMOUNTS[2], rate: '0.1000', at: '02:00:00' })
  const feed = `/events?sort=position&type=dosages.*&resource_id=${id}`
  await waitUntil(async () => (await admin.get(feed)).body.data.length === 2)
  t.match((await admin.get(feed)).body.data, [
    { data: { amount: AMOUNTS[2], rate: '0.0002' } },
    { data: { amount: AMOUNTS[2], rate: '0.1000' }, previous: { rate: '0.0002' } },
  ])
  const same = await admin.patch(`/dosages/${id}`, { rate: '0.1000' })
  t.equal(same.headers.get('etag'), changed.headers.get('etag'), 'no change, no new revision')
})

t.test('other notations and more digits are rejected', async (t) => {
  const create = async (amount: unknown, at: string) =>
    getViolations(await admin.post('/dosages', { amount, at })).join()
  for (const amount of ['1', '1.5', '01.50', '+1.00', '-0.00', '1e2', '1234567890123456789.00', ' ', '٣.00'])
    t.equal(await create(amount, '00:00:00'), 'amount INVALID_FORMAT', amount)
  t.equal(await create(1.5, '00:00:00'), 'amount INVALID_TYPE')
  for (const at of ['24:00:00', '9:00:00', '09:00', '09:60:00', '09:00:00Z'])
    t.equal(await create('1.00', at), 'at INVALID_FORMAT', at)
})

t.test('ranges, filters and sorts compare values, not texts', async (t) => {
  const [nine = '', minusTen = '', largest = '', ten = ''] = AMOUNTS
  t.same(await listAmounts('sort=amount'), [minusTen, nine, ten, largest])
  t.same(await listAmounts('sort=-amount&amount_min=9.00&amount_max=10.00'), [ten, nine])
  t.same(await listAmounts(`amount=${ten},${minusTen}&sort=amount`), [minusTen, ten])
  t.same(await listAmounts('at_min=01:00:00&at_max=02:00:00&sort=at'), [minusTen, largest])
  const crossed = await admin.get('/dosages?amount_min=10.00&amount_max=9.00&at_min=10:00:00&at_max=09:00:00')
  t.same(getViolations(crossed), ['amount_min CONFLICTING_PARAMETERS', 'at_min CONFLICTING_PARAMETERS'])
  t.same(getViolations(await admin.get('/dosages?amount_min=9')), ['amount_min INVALID_FORMAT'])
})

t.test('a list sorted by a nullable decimal is read to its end by cursors', async (t) => {
  for (const sort of ['rate', '-rate', 'amount']) {
    const found: string[] = []
    for await (const { body } of readPages(admin, `/dosages?sort=${sort}&limit=1`))
      found.push(...body.data.map(({ amount }: Json) => amount))
    t.same([...found].sort(), [...AMOUNTS].sort(), sort)
    if (sort.endsWith('rate')) t.equal(found.at(-1), AMOUNTS[0], 'null comes last')
  }
})
