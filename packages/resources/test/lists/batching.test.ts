/** Which lists share a packet with other statements: those that read no more rows than they return. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'

const { $client } = await testDatabase(t)
/** Whether each read of products could share a packet. */
let shared: (boolean | undefined)[] = []
const database = createDatabase({
  ...$client,
  run(text, params, options) {
    if (/^select .* from "products"/s.test(text)) shared.push(options?.canBatch)
    return $client.run(text, params, options)
  },
})
const { admin, person } = await testApp(t, {}, { database })

for (const [query, expected] of [
  ['', true],
  ['?sort=name', true],
  ['?status=active', true],
  ['?sku=TEA', true],
  ['?sort=name,sku', false],
  ['?status=active&sort=name', false],
  ['?status=active&currency=EUR', false],
  ['?status=active,draft', false],
  ['?price_amount_min=1', false],
  ['?search=tea', false],
  ['?page=1', false],
  ['?limit=50', false],
] as const) {
  t.test(`/products${query}`, async (t) => {
    shared = []
    t.equal((await admin.get(`/products${query}`)).status, 200)
    t.same(shared.map(Boolean), [expected])
  })
}

t.test('a list of a caller who may not read all rows', async (t) => {
  const { client } = await person('member')
  shared = []
  t.equal((await client.get('/products')).status, 200)
  t.same(shared.map(Boolean), [false])
})
