/** A resource to which no relation leads can be removed from the list; any other stops the start, which says why. */
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { newId } from '../../../database/src/lib/ids.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'

t.test('the service works without posts, to which no relation leads', async (t) => {
  const served = resources.filter(({ name }) => name !== 'posts')
  const { anybody, database, person } = await testApp(t, {}, { resources: served })
  const { client, bearer } = await person('admin')
  for (const [path, status] of [
    ...(['/user-profiles', '/orders', '/sessions', '/readyz'] as const).map((each) => [each, 200] as const),
    ...(['/posts', '/users/me/posts'] as const).map((each) => [each, 404] as const),
    ['/users?include=posts', 400],
  ] as const) {
    const reply = await bearer.get(path)
    t.equal(reply.status, status, path)
    if (status === 404) t.equal(reply.body.error.code, 'RESOURCE_NOT_FOUND')
  }
  for (const [name, status] of [
    ['posts', 422],
    ['orders', 201],
  ] as const) {
    const key = await bearer.post('/api-keys', { name: 'A', scopes: [`${name}:read`] })
    t.equal(key.status, status, `the scope of ${name}`)
    if (status === 422) t.match(key.body.error.details, [{ field: 'scopes.0', code: 'INVALID_VALUE' }])
  }
  for (const version of [1, 2]) {
    const document = (await anybody.get(`/openapi/v${version}.json`)).body
    const isDocumented = ({ name }: { name: string }) =>
      Object.keys(document.paths).some((path) => path.split('/').includes(name)) ||
      document.tags.some((tag: Json) => tag.name === name)
    t.same(resources.filter(isDocumented), served, `v${version}`)
    const samples = JSON.stringify(document.paths[`/api/v${version}/users`].get['x-codeSamples'] ?? [])
    t.equal(samples.includes('createClient'), version === 1)
    t.notMatch(samples, /include[^,]*posts/, 'no sample includes what is gone')
  }

  const id = newId()
  await database.run(
    `insert into products (id, sku, name, price_amount, stock, status) values ($1, 'TEA-1', 'Tea', 500, 3, 'active')`,
    [id],
  )
  const ordered = await client.post('/orders', { items: [{ product_id: id, quantity: 2 }] })
  t.match(ordered, { status: 201, body: { data: { total_amount: 1000, items: [{ sku: 'TEA-1' }] } } })
  const [product] = await database.run('select stock from products where id = $1', [id])
  t.equal(Number(product?.stock), 1, 'an order takes stock')
})

t.test('without users, the start says which relations lead to them', async (t) => {
  const message = [
    ...['user-profiles: the relation "user"', 'orders: the relation "user"'].map(
      (relation) => `${relation} leads to the table "users", of which no resource is registered; `,
    ),
    'posts: its parent "users" is not registered',
  ]
  const served = resources.filter(({ name }) => name !== 'users')
  const error = await testApp(t, {}, { resources: served }).catch((reason: Error) => reason)
  for (const each of message) t.match(error, { message: new RegExp(each) })
})
