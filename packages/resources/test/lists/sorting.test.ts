/** Lists are sorted by the documented fields, in either direction, with stable order of equal rows. */
import t from 'tap'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { getDefinition } from '../../../testing/helpers/definitions.ts'
import { getIds } from '../../../testing/helpers/replies.ts'
import { createListTables } from './list-tables.ts'
import { createCollections } from './sortable-collections.ts'

const { admin, database, person } = await testApp(t)
const { id: owner } = await person('member')
const { check } = createListTables(database, admin)
const collections = await createCollections(database, owner)
for (const { table, insert } of collections) {
  if (table === 'users') continue
  for (let n = 0; n < 40; n++) await insert(n)
}

type Value = string | number | null

/** By code point: UTF-8 bytes sort as the characters do, UTF-16 does not. */
const compare = (a: Value, b: Value) =>
  typeof a === 'number' && typeof b === 'number'
    ? a - b
    : Buffer.compare(Buffer.from(`${a}`), Buffer.from(`${b}`))

/** The first 100 rows in the order that the contract promises, from the database's own text of them. */
function expected(rows: Json[], sort: string): string[] {
  const terms = sort.split(',').map((term) => ({ name: term.replace('-', ''), down: term.startsWith('-') }))
  const all = [...terms, { name: 'id', down: terms.at(-1)?.down ?? false }]
  const order = (a: Json, b: Json): number => {
    for (const { name, down } of all) {
      if (a[name] === b[name]) continue
      if (a[name] === null) return 1
      if (b[name] === null) return -1
      return down ? compare(b[name], a[name]) : compare(a[name], b[name])
    }
    return 0
  }
  return [...rows]
    .sort(order)
    .slice(0, 100)
    .map(({ id }) => id)
}

for (const { name, path, table, sorts } of collections) {
  t.test(`${table}: every sortable field sorts in both directions, alone and combined`, async (t) => {
    const parent = getDefinition(name).parent?.member
    const rows = await database.run(
      `select * from ${table}${parent ? ` where ${parent} = '${path.split('/')[2]}'` : ''}`,
    )
    const [first = '', second = '', third = ''] = sorts
    const several = [
      `${first},${second}`,
      `-${first},${second}`,
      `${first},-${second}`,
      `-${second},-${first}`,
      `${third},-${second},${first}`,
      sorts.map((name, i) => (i % 2 ? name : `-${name}`)).join(),
    ]
    for (const sort of [...sorts, ...sorts.map((name) => `-${name}`), ...several]) {
      const found = getIds(await admin.get(`${path}?limit=100&fields=id&sort=${sort}`))
      t.same(found, expected(rows, sort), sort)
    }
    t.same(getIds(await admin.get(`${path}?limit=100`)), expected(rows, '-created_at'), 'the default')
    t.same(getIds(await admin.get(`${path}?limit=100&page=1&sort=${third}`)), expected(rows, third))
  })
}

t.test('a sort that is not a list of documented fields is rejected', async (t) => {
  await check(
    t,
    `/users?sort !! INVALID_VALUE role status password_hash id search revision
    /user-profiles?sort !! INVALID_VALUE bio user_id
    /products?sort !! INVALID_VALUE stock updated_at status currency
    /orders?sort !! INVALID_VALUE items user_id note
    /products?sort !! INVALID_VALUE - --name %2Bname +name name, ,name name,+sku Name name,name name,-name name;sku
    /products?sort !! INVALID_VALUE name%00 constructor -__proto__ name%20desc name)%20--
    /products?sort !! TOO_SHORT ''
    /products?limit=1&sort=, !! sort INVALID_VALUE, sort INVALID_VALUE
    /products?limit=1&sort=name,sku,price_amount,created_at,-name,-sku !! sort INVALID_VALUE, sort INVALID_VALUE
    /products?limit=1&sort=__proto__,toString !! sort INVALID_VALUE, sort INVALID_VALUE
    /products?sort=name&sort=sku !! sort CONFLICTING_PARAMETERS`,
  )
})

t.test('order gives the directions by position and cannot contradict a sign in sort', async (t) => {
  const rows = await database.run('select * from products')
  const same: Record<string, string> = {
    'sort=price_amount,name&order=desc,asc': '-price_amount,name',
    'sort=price_amount,name&order=desc': '-price_amount,name',
    'sort=price_amount,-name&order=desc': '-price_amount,-name',
    'sort=price_amount,-name&order=asc,desc': 'price_amount,-name',
    'sort=-price_amount&order=desc': '-price_amount',
    'order=asc': 'created_at',
    'order=desc': '-created_at',
  }
  for (const [query, sort] of Object.entries(same)) {
    t.same(getIds(await admin.get(`/products?limit=100&${query}`)), expected(rows, sort), query)
  }
  await check(
    t,
    `/products?sort=-name&order=asc !! order CONFLICTING_PARAMETERS
    /products?sort=sku,-name&order=asc,asc !! order CONFLICTING_PARAMETERS
    /products?sort=name&order=asc,desc !! order INVALID_VALUE
    /products?order !! INVALID_VALUE asc,desc up ASC
    /products?order !! TOO_SHORT ''
    /products?sort=name,sku&order=asc, !! order INVALID_VALUE
    /products?sort=&order=asc,desc !! sort TOO_SHORT
    /products?order=asc&order=asc !! order CONFLICTING_PARAMETERS`,
  )
})
