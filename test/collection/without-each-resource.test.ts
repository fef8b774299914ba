/** A resource can be removed from the list in src/app.ts without a change of any other file. */
import t from 'tap'
import { newId } from '../../lib/ids.ts'
import { resources } from '../../src/resources.ts'
import { type Json, testApp } from '../helpers/app.ts'

// Users have a nested collection and the credentials, and other resources refer to them.
const REMOVED = ['users', 'posts']
const isRemoved = (name: string) => REMOVED.includes(name)

t.test('the service works without users and posts', async (t) => {
  const served = resources.filter(({ name }) => !isRemoved(name))
  const { anybody, database, person } = await testApp(t, {}, { resources: served })
  const { client, bearer } = await person('admin')
  for (const [path, status] of [
    ...(['/user-profiles', '/orders', '/sessions', '/readyz'] as const).map((each) => [each, 200] as const),
    ...(['/users', '/users/me', '/users/me/posts'] as const).map((each) => [each, 404] as const),
    ['/orders?include=user', 400],
    ['/user-profiles?include=user', 400],
  ] as const) {
    const reply = await bearer.get(path)
    t.equal(reply.status, status, path)
    if (status === 404) t.equal(reply.body.error.code, 'RESOURCE_NOT_FOUND')
  }
  for (const name of [...REMOVED, 'orders']) {
    const key = await bearer.post('/api-keys', { name: 'A', scopes: [`${name}:read`] })
    t.equal(key.status, isRemoved(name) ? 422 : 201, `the scope of ${name}`)
    if (isRemoved(name)) t.match(key.body.error.details, [{ field: 'scopes.0', code: 'INVALID_VALUE' }])
  }
  for (const version of [1, 2]) {
    const document = (await anybody.get(`/openapi/v${version}.json`)).body
    const isDocumented = ({ name }: { name: string }) =>
      Object.keys(document.paths).some((path) => path.split('/').includes(name)) ||
      document.tags.some((tag: Json) => tag.name === name)
    t.same(resources.filter(isDocumented), served, `v${version}`)
    const samples = JSON.stringify(document.paths[`/api/v${version}/orders`].get['x-codeSamples'])
    t.match(samples, 'curl')
    t.notMatch(samples, /include[^,]*user/, 'no sample includes what is gone')
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
