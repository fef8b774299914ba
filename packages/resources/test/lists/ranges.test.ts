/** Ranges select rows by time and by number, and unknown or malformed query parameters are rejected. */
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { createOwnedRows } from '../../../testing/helpers/example-rows.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { checkRefusals, getViolations } from '../../../testing/helpers/replies.ts'
import type { Values } from '../../../testing/helpers/rows.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import { createListTables } from './list-tables.ts'

const served = await createNotes(t)
const { admin, database, person, adminId } = await testApp(t, {}, served)
const ada = await person('member')
const { insert, check } = createListTables(database, admin)
const { getListPath, user } = createOwnedRows(database)
const owner = await user()
/** The lists of `served.resources`, in their order. */
const LIST = [
  ...(await Promise.all(resources.map(({ name }) => getListPath(name, owner)))),
  `/users/${ada.id}/notes`,
]
const toRows = <T>(values: readonly T[], build: (value: T) => Values) =>
  Object.fromEntries(values.map((value, n) => [`${n}`, build(value)]))

t.test('created_after and created_before are whole days in UTC, half-open', async (t) => {
  const days =
    '2026-02-27T23:59:59.999999Z 2026-02-28T00:00:00Z 2026-03-01T00:00:00Z 9999-12-31T23:59:59Z'.split(' ')
  await insert(
    'products',
    toRows(days, (created_at) => ({ name: 'Dated', created_at })),
  )
  const dated = '/products?search=dated&sort=created_at'
  await check(
    t,
    `${dated}&created_after=2026-02-28 -> 1 2 3
    ${dated}&created_before=2026-02-28 -> 0
    ${dated}&created_after=2026-02-28&created_before=2026-03-01 -> 1
    ${dated}&created_after=2026-02-28&created_before=2026-02-28 ->
    ${dated}&created_after=9999-12-31 -> 3
    ${dated}&created_after=0001-01-01&created_before=9999-12-31 -> 0 1 2
    ${dated}&created_after=2024-02-29 -> 0 1 2 3
    /products?created_after=2026-03-02&created_before=2026-03-01 !! created_after CONFLICTING_PARAMETERS`,
  )
  const between = 'created_after=2026-01-01&created_before=2030-01-01'
  for (const path of LIST) t.equal((await admin.get(`${path}?${between}`)).status, 200, path)
})

t.test('a date that does not exist is rejected, and an offset whose "+" is not encoded', async (t) => {
  const dates = `2026-02-29 2026-02-30 2026-13-01 2026-00-10 2026-01-00 2026-1-1 0000-01-01 0000-12-31 10000-01-01 \
-2026-01-01 2026-01-01T00:00:00 2026-01-01T00:00Z 2026-01-01T24:00:00Z 2026-01-01T23:59:60Z 2026-02-29T00:00:00Z \
2026-01-01T00:00:00%2B24:00 2026-01-01T00:00:00.Z 2026-01-01T00:00:00,5Z 2026-01-01%2000:00:00Z 20260101 yesterday \
infinity 1900-02-29 2026-01-01%20`
  // The same instant is in the year 0, or in the year 10000.
  const outside = '0001-01-01T00:00:00%2B00:01 9999-12-31T23:59:59-00:01 9999-12-31T23:59:59.9999991Z'
  await check(t, `/products?created_after !! INVALID_FORMAT ${dates} ${outside} ''`)
  await check(t, `/products?created_before !! INVALID_FORMAT ${dates} ${outside} ''`)
  for (const name of ['created_after', 'updated_before']) {
    const reply = await admin.get(`/orders?${name}=2026-01-01T00:00:00+01:00`)
    t.same(getViolations(reply), [`${name} INVALID_FORMAT`])
    t.match(reply.body.error.details[0].message, /%2B/)
  }
})

t.test('times are compared by the microsecond, with any offset and any number of digits', async (t) => {
  const times = ['2025-05-05T09:59:59.999999Z', '2025-05-05T10:00:00Z', '2025-05-05T10:00:00.000001Z']
  await insert(
    'orders',
    toRows(times, (at) => ({ user_id: ada.id, created_at: at, updated_at: at })),
  )
  const span = '/orders?sort=created_at&created_after=2025-05-05&created_before=2025-05-06'
  const after: Record<string, string> = {
    '2025-05-05T10:00:00Z': '1 2',
    '2025-05-05t10:00:00z': '1 2',
    '2025-05-05T12:30:00%2B02:30': '1 2',
    '2025-05-05T00:00:00.000000000-10:00': '1 2',
    '2025-05-05T10:00:00.0000001Z': '2',
    '2025-05-05T10:00:00.000001Z': '2',
    '2025-05-05T10:00:00.0000010000001Z': '',
    '2025-05-05T09:59:59.9999990001Z': '1 2',
    '2025-05-05': '0 1 2',
    '2025-05-06': '',
  }
  for (const [time, rows] of Object.entries(after)) {
    const others = ['0', '1', '2'].filter((row) => !rows.includes(row)).join(' ')
    await check(t, `${span}&updated_after=${time} -> ${rows}\n${span}&updated_before=${time} -> ${others}`)
  }
  const instant = '2025-05-05T10:00:00'
  await check(
    t,
    `${span}&updated_after=${instant}Z&updated_before=${instant}.000001Z -> 1
    ${span}&updated_after=${instant}Z&updated_before=${instant}Z ->
    /orders?updated_after=${instant}.000001Z&updated_before=${instant}Z !! updated_after CONFLICTING_PARAMETERS
    # Equal instants with different offsets, and a collection that does not sort by the time.
    /orders?created_after=${instant}%2B01:00&created_before=2025-05-05T09:00:00Z ->
    /products?updated_after=2025-05-05 !! updated_after UNKNOWN_PARAMETER`,
  )
})

t.test('_min and _max limit a number, both inclusive', async (t) => {
  const largest = 9_007_199_254_740_991
  await insert(
    'orders',
    toRows([0, 9, 10, 11, largest], (total_amount) => ({ user_id: owner, total_amount })),
  )
  const sorted = `/orders?user_id=${owner}&sort=total_amount`
  await check(
    t,
    `${sorted}&total_amount_min=9&total_amount_max=10 -> 1 2
    ${sorted}&total_amount_min=10 -> 2 3 4
    ${sorted}&total_amount_max=9 -> 0 1
    ${sorted}&total_amount_min=10&total_amount_max=10 -> 2
    ${sorted}&total_amount_min=${largest} -> 4
    /orders?total_amount_min=11&total_amount_max=10 !! total_amount_min CONFLICTING_PARAMETERS
    # As text, 9 is greater than 10.
    /orders?total_amount_min=10&total_amount_max=9 !! total_amount_min CONFLICTING_PARAMETERS
    /orders?total_amount_min=1&total_amount_min=1 !! total_amount_min CONFLICTING_PARAMETERS
    /orders?total_amount_min !! OUT_OF_RANGE -1
    /orders?total_amount_max !! OUT_OF_RANGE 9007199254740992 ${'9'.repeat(400)}
    /orders?total_amount_min !! INVALID_TYPE 1.5 1e2 1,2 ''
    /products?price_amount_min !! OUT_OF_RANGE 1000000000001`,
  )
})

/** A query of parameters that are all unknown, and their violations. */
const toUnknown = (names: readonly string[]) => ({
  query: names.map((name) => `${encodeURIComponent(name)}=1`).join('&'),
  violations: names.map((name) => `${name} UNKNOWN_PARAMETER`).sort(),
})

t.test('unknown and repeated parameters are rejected, as are filters of other collections', async (t) => {
  const odd = [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    'valueOf',
    '\0',
    '\u{1f600}',
    'limit ',
  ]
  const unknown = ['foo', 'Limit', 'limit[]', 'page[number]', 'filter[status]', 'offset', ...odd]
  const offered = toCollections(served.resources).map(({ filters, ranges = [], sorts }) => [
    ...filters,
    ...ranges.flatMap((name) => [`${name}_min`, `${name}_max`]),
    ...('updated_at' in sorts ? ['updated_after'] : []),
  ])
  const names = [...new Set(offered.flat()), 'id', 'revision', 'price_amount', 'stock_min', 'created_at_min']
  for (const [i, path] of LIST.entries()) {
    const { query, violations } = toUnknown(names.filter((name) => !offered[i]?.includes(name)))
    await checkRefusals(t, admin, { [`${path}?${query}`]: violations })
    const others = toUnknown(unknown)
    await checkRefusals(t, admin, { [`${path}?${others.query}&${others.query}`]: others.violations })
  }
  const ofLists = toUnknown([...unknown, 'limit', 'page', 'sort', 'search', 'cursor', 'filter'])
  await checkRefusals(t, admin, { [`/users/${adminId}?${ofLists.query}`]: ofLists.violations })
  for (const path of ['/products?', '/products?&&']) t.equal((await admin.get(path)).status, 200)
})

t.test('a query string that is not percent-encoded UTF-8 is rejected', async (t) => {
  for (const query of 'limit=% limit=%2 limit=%zz search=%ff search=%C3 search=%ED%A0%80 %ff=1'.split(' ')) {
    const reply = await admin.get(`/products?${query}`)
    t.match(reply, { status: 400, body: { error: { code: 'INVALID_REQUEST' } } }, query)
  }
})

t.test('the error of an unknown parameter lists those that there are', async (t) => {
  for (const [method, path, message] of [
    ['GET', '/orders', /; there are limit, cursor, page, .*status, user_id, number, /],
    ['GET', '/products/x', /^is not a known parameter; there are fields$/],
    ['DELETE', '/products/x', /^is not a known parameter; there are dry_run$/],
  ] as const) {
    const { body } = await admin.call(method, `${path}?state=paid`)
    t.match(body.error.details[0].message, message)
  }
})

t.test('all violations are reported together, in both envelopes', async (t) => {
  const wrong =
    'limit=0&page=x&status=no&created_after=x&created_before=0000-01-01&sort=no,-name&order=asc,asc&fields=id,no&foo=1&search=&include=no'
  const found = `created_after INVALID_FORMAT, created_before INVALID_FORMAT, fields INVALID_VALUE, foo UNKNOWN_PARAMETER, \
include UNKNOWN_PARAMETER, limit OUT_OF_RANGE, order CONFLICTING_PARAMETERS, page INVALID_TYPE, search TOO_SHORT, \
sort INVALID_VALUE, status INVALID_VALUE`
  await check(t, `/v1/products?${wrong} !! ${found}\n/v2/products?${wrong} !! ${found}`)
})
