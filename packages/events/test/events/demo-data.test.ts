/** `seed` creates the demo data through the API: ten of each resource, with the rules and events of the API, once. */
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { readChanges } from '../../../testing/helpers/events.ts'

t.test('seed creates ten of each resource, all or nothing', async (t) => {
  const { admin, base, database, person } = await testApp(t)
  const seed = (key: string, more = '') => runCommand(t, `seed --url ${base} --key ${key} ${more}`)

  const { key } = await person('member')
  t.match(await seed(key), { code: 1, out: '', err: /^seed failed: / }, 'by the rules of the API')
  t.same((await admin.get('/products')).body.data, [])
  t.match(await runCommand(t, `seed --url ${base}`), {
    code: 2,
    err: '--key or RESOURCE_API_KEY is required',
  })

  const { code, out, err } = await seed(ADMIN_KEY, '--json')
  t.equal(code, 0, err)
  const added = { users: 10, products: 10, orders: 10, 'user-profiles': 10, posts: 10 }
  t.same(JSON.parse(out), { added })

  const products = (await admin.get('/products?fields=sku,stock&limit=100')).body.data
  const stocks = new Map(products.map(({ sku, stock }: { sku: string; stock: number }) => [sku, stock]))
  t.equal(stocks.get('TEA-GREEN'), 27, 'an order takes its stock')
  t.equal(stocks.get('CUP-STONE'), 148, 'and a cancelled one returns it')
  const { body } = await admin.get('/orders?limit=100&include=user')
  t.equal(body.data.filter(({ status }: { status: string }) => status === 'pending').length, 6)
  t.match(body.data.at(-1), { user: { email: 'alan@example.com' }, total_amount: 2500 })
  const changes = await readChanges(database)
  const ofOrders = changes.filter(({ type }) => type.startsWith('orders.'))
  t.equal(ofOrders.length, 17, 'each write has its event')

  const again = await seed(ADMIN_KEY)
  t.match(again, { code: 1, out: '', err: 'operations.0.body.email' })
  t.equal((await admin.get('/orders?limit=100')).body.data.length, 10)
})
