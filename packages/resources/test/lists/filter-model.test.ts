/** Lists with any filters and limits contain the rows that a model in memory selects, each exactly once. */
import fc from 'fast-check'
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { collectIds, getIds } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'

const ROWS = 90
const STATES = ['pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded']

interface Row {
  id: string
  status: string
  user_id: string
  total_amount: number
  created_at: string
  updated_at: string
}

const { admin, database, person } = await testApp(t)
const people = [await person('member'), await person('member'), await person('member')]
const [ada] = people
if (!ada) throw new Error('There are three people')

/** Times with few distinct values: many rows are equal in a sort. */
const at = (n: number) => `2026-01-0${1 + (n % 2)}T00:00:00.00000${n % 3}Z`
const orderRows = Array.from({ length: ROWS }, (_, n) => ({
  status: STATES[(n * 7) % STATES.length] ?? '',
  user_id: people[n % people.length]?.id ?? '',
  created_at: at(n),
  updated_at: at(n >> 1),
  total_amount: (n * 5) % 8,
}))
const orderIds = await insertRows(database, 'orders', orderRows)
const orders: Row[] = orderRows.map((row, i) => ({ ...row, id: orderIds[i] ?? '' }))

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

const isOrdered = (lower: number | string | undefined, upper: number | string | undefined) =>
  lower === undefined || upper === undefined || lower <= upper

const several = (values: readonly string[]) =>
  // With repetitions, in any order.
  fc.array(fc.constantFrom(...values), { minLength: 1, maxLength: values.length + 2 })

/** Queries with any of the parameters. */
const time = fc.nat(5).map(at)
const queries = fc
  .record(
    {
      status: several(STATES),
      user_id: several(people.map(({ id }) => id)),
      ...{ total_amount_min: fc.nat(8), total_amount_max: fc.nat(8) },
      ...{ created_after: time, created_before: time, updated_after: time, updated_before: time },
      sort: fc.constantFrom(
        'created_at',
        '-created_at',
        'updated_at',
        '-updated_at',
        'total_amount',
        '-total_amount',
      ),
    },
    { requiredKeys: ['sort'] },
  )
  .map((query) => query as Query)
  .filter(
    (query) =>
      isOrdered(query.created_after, query.created_before) &&
      isOrdered(query.updated_after, query.updated_before) &&
      isOrdered(query.total_amount_min, query.total_amount_max),
  )

t.test('a list of orders has the rows of the model, for admins and members', async (t) => {
  const check = async (query: Query, limit: number, isMember: boolean) => {
    const client = isMember ? ada.client : admin
    const readable = isMember ? orders.filter(({ user_id }) => user_id === ada.id) : orders
    const expected = select(readable, query)
    const parameters = Object.entries(query).map(
      ([name, value]) => `${name}=${encodeURIComponent(String(value))}`,
    )
    const path = `/orders?${parameters.join('&')}&limit=${limit}`
    t.same(await collectIds(client, path), expected, path)
    const page = await client.get(`${path}&page=2`)
    t.equal(page.body.pagination.total, expected.length)
    t.same(getIds(page), expected.slice(limit, 2 * limit), 'the second page by number')
  }
  const limit = fc.integer({ min: 3, max: 40 })
  await fc.assert(fc.asyncProperty(queries, limit, fc.boolean(), check), { numRuns: 50, endOnFailure: true })
})
