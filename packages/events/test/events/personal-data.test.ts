/** The statement of docs/operators/personal-data.md removes the personal data of a user from the events, which stay readable. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { getEvents, readFeed } from '../../../testing/helpers/events.ts'

const page = readFileSync(new URL('../../../../docs/operators/personal-data.md', import.meta.url), 'utf8')
const [, statement = ''] = /```sql\n(update events[\s\S]*?)```/.exec(page) ?? []

/** Words of the user that must be in the events before the statement, and in none after it. */
const PERSONAL = 'Grace|grace@example.com|Hopper|Rear Admiral|Arlington|my diary|ring twice'.split('|')

t.test('the events of a deleted user have no personal data', async (t) => {
  const { app, admin, person, anybody, database } = await testApp(t)
  const ada = await person('member')
  const password = 'nine brass cogs, turning'
  const { body } = await admin.post('/users', { name: 'Grace', email: 'grace@example.com', password })
  const { id } = body.data
  const signIn = { grant_type: 'password', email: 'grace@example.com', password }
  const { access_token } = (await anybody.post('/tokens', signIn)).body.data
  const headers = { authorization: `Bearer ${access_token}` }
  await admin.patch(`/users/${id}`, { name: 'Grace Hopper' })
  await anybody.post('/user-profiles', { display_name: 'Rear Admiral', location: 'Arlington' }, headers)
  await anybody.post('/users/me/posts', { title: 'Monday', body: 'my diary' }, headers)
  const tea = { sku: 'TEA', name: 'Tea', price_amount: 100, stock: 5, status: 'active' }
  const { body: product } = await admin.post('/products', tea)
  const items = [{ product_id: product.data.id, quantity: 1 }]
  const order = await anybody.post('/orders', { items, note: 'ring twice' }, headers)
  await admin.post('/orders', { user_id: ada.id, items, note: 'leave it' })
  t.equal((await admin.delete(`/orders/${order.body.data.id}`)).status, 204)
  t.equal((await admin.delete(`/users/${id}`)).status, 204)
  await app.events.assignAll()

  const list = async (version: number) => getEvents(await admin.get(`/v${version}/events?limit=100`))
  const before = await list(1)
  for (const word of PERSONAL) t.match(JSON.stringify(before), word)
  await database.run(statement.replaceAll('ID', id))
  for (const version of [1, 2]) {
    const after = await list(version)
    t.equal(after.length, before.length)
    for (const word of PERSONAL) t.notMatch(JSON.stringify(after), word, `v${version}`)
    t.match(JSON.stringify(after), 'leave it', 'the events of others are unchanged')
  }
  t.equal((await readFeed(admin)).events.length, before.length, 'consumers still read all events')
})
