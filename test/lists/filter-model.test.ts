/** Lists with any filters and limits contain the rows that a model in memory selects, each exactly once. */
import fc from 'fast-check'
import t from 'tap'
import { type Client, testApp } from '../helpers/app.ts'
import { createNotes, NOTE_STATES } from '../helpers/notes.ts'
import { collectIds } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'

const ROWS = 90
const LIMITS = fc.integer({ min: 3, max: 40 })
const ORDER_STATES = ['pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded']

interface Row {
  id: string
  status: string
  user_id: string
  total_amount: number
  created_at: string
  updated_at: string
}

const { admin, database, person } = await testApp(t, {}, await createNotes(t))
const people = [await person('member'), await person('member'), await person('member')]
const [ada] = people
if (!ada) throw new Error('There are three people')

/** Times with few distinct values: many rows are equal in a sort. */
const at = (n: number) => `2026-01-0${1 + (n % 2)}T00:00:00.00000${n % 3}Z`
const makeRow = (n: number, states: readonly string[]) => ({
  status: states[(n * 7) % states.length] ?? '',
  user_id: people[n % people.length]?.id ?? '',
  created_at: at(n),
  updated_at: at(n >> 1),
})
const orderRows = Array.from({ length: ROWS }, (_, n) => ({
  ...makeRow(n, ORDER_STATES),
  total_amount: (n * 5) % 8,
}))
const orderIds = await insertRows(database, 'orders', orderRows)
const orders: Row[] = orderRows.map((row, i) => ({ ...row, id: orderIds[i] ?? '' }))
const noteRows = Array.from({ length: ROWS }, (_, n) => makeRow(n, NOTE_STATES))
const noteIds = await insertRows(database, 'notes', noteRows)
const notes: Row[] = noteRows.map((row, i) => ({ ...row, total_amount: 0, id: noteIds[i] ?? '' }))

/** The values of the parameters of a list; an absent one selects all rows. */
interface Query {
  status?: string[]
  user_id?: string[]
  total_amount_min?: number
  total_amount_max?: number
  created_after?: string
  created_before?: string
  updated_after?: string
  updated_before?: string
  sort: string
}

const isSelected = (row: Row, query: Query): boolean =>
  (query.status?.includes(row.status) ?? true) &&
  (query.user_id?.includes(row.user_id) ?? true) &&
  row.total_amount >= (query.total_amount_min ?? 0) &&
  row.total_amount <= (query.total_amount_max ?? 100) &&
  row.created_at >= (query.created_after ?? '') &&
  row.created_at < (query.created_before ?? '9') &&
  row.updated_at >= (query.updated_after ?? '') &&
  row.updated_at < (query.updated_before ?? '9')

const compare = (a: string | number, b: string | number) => {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Returns the ids of the rows that a query selects, in its order. */
function select(rows: readonly Row[], query: Query): string[] {
  const name = query.sort.replace('-', '')
  const direction = query.sort.startsWith('-') ? -1 : 1
  // The sorts of the queries below are fields of a row.
  const key = (row: Row) => row[name as keyof Row]
  return rows
    .filter((row) => isSelected(row, query))
    .sort((a, b) => direction * (compare(key(a), key(b)) || compare(a.id, b.id)))
    .map(({ id }) => id)
}

const toPath = (path: string, query: Query, limit: number): string => {
  const parameters = Object.entries(query).map(
    ([name, value]) => `${name}=${encodeURIComponent(String(value))}`,
  )
  return `${path}?${[...parameters, `limit=${limit}`].join('&')}`
}

async function matches(client: Client, path: string, rows: readonly Row[], query: Query, limit: number) {
  const expected = select(rows, query)
  const found = await collectIds(client, toPath(path, query, limit))
  t.same(found, expected, toPath(path, query, limit))
  const page = await client.get(`${toPath(path, query, limit)}&page=2`)
  t.equal(page.body.pagination.total, expected.length)
  t.same(
    page.body.data.map(({ id }: Row) => id),
    expected.slice(limit, 2 * limit),
    'the second page by number',
  )
}

const isOrdered = (lower: number | string | undefined, upper: number | string | undefined) =>
  lower === undefined || upper === undefined || lower <= upper

/** Generates queries with any of the parameters. */
function generate(states: readonly string[], others: Partial<Record<keyof Query, fc.Arbitrary<unknown>>>) {
  const time = fc.nat(5).map(at)
  const dates = { created_after: time, created_before: time, updated_after: time, updated_before: time }
  const sort = fc.constantFrom('created_at', '-created_at', 'updated_at', '-updated_at')
  return fc
    .record({ status: several(states), ...dates, sort, ...others }, { requiredKeys: ['sort'] })
    .map((query) => query as Query)
    .filter(
      (query) =>
        isOrdered(query.created_after, query.created_before) &&
        isOrdered(query.updated_after, query.updated_before) &&
        isOrdered(query.total_amount_min, query.total_amount_max),
    )
}

const several = (values: readonly string[]) =>
  // With repetitions, in any order.
  fc.array(fc.constantFrom(...values), { minLength: 1, maxLength: values.length + 2 })

t.test('a list of orders has the rows of the model, for admins and members', async () => {
  const queries = generate(ORDER_STATES, {
    user_id: several(people.map(({ id }) => id)),
    total_amount_min: fc.nat(8),
    total_amount_max: fc.nat(8),
    sort: fc.constantFrom('-created_at', 'updated_at', 'total_amount', '-total_amount'),
  })
  const property = fc.asyncProperty(queries, LIMITS, fc.boolean(), async (query, limit, isMember) => {
    const rows = isMember ? orders.filter(({ user_id }) => user_id === ada.id) : orders
    await matches(isMember ? ada.client : admin, '/orders', rows, query, limit)
  })
  await fc.assert(property, { numRuns: 40, endOnFailure: true })
})

t.test('a list of the notes of a user has the rows of the model, for admins and other members', async () => {
  const own = notes.filter(({ user_id }) => user_id === people[1]?.id)
  const queries = generate(NOTE_STATES, {})
  const property = fc.asyncProperty(queries, LIMITS, fc.boolean(), async (query, limit, isMember) => {
    const rows = isMember ? own.filter(({ status }) => status === 'published') : own
    await matches(isMember ? ada.client : admin, `/users/${people[1]?.id}/notes`, rows, query, limit)
  })
  await fc.assert(property, { numRuns: 20, endOnFailure: true })
})
