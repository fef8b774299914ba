/** A resource can be removed from the list in src/app.ts without a change of any other file. */
import t, { type Test } from 'tap'
import { newId } from '../../lib/ids.ts'
import { resources } from '../../src/app.ts'
import { type Json, type TestApp, testApp } from '../helpers/app.ts'

/** The relations that lead to the rows of a resource, by the resources that have them. */
const relationsTo: Record<string, readonly (readonly [from: string, name: string])[]> = {
  users: [
    ['user-profiles', 'user'],
    ['orders', 'user'],
  ],
  'user-profiles': [['users', 'profile']],
  posts: [['users', 'posts']],
  products: [['orders', 'products']],
  orders: [['users', 'orders']],
}

/** Returns the removed resource, and those whose path begins with its own. */
const getRemoved = (name: string) =>
  resources.filter((resource) => resource.name === name || resource.parent?.to === name)

const getPath = ({ name, parent }: (typeof resources)[number]) => (parent ? `${parent.to}/me/${name}` : name)

/** Checks that each version documents only the resources that are served. */
async function checkDocuments(t: Test, { anybody }: TestApp, names: { removed: string[]; served: string[] }) {
  for (const version of [1, 2]) {
    const { status, body } = await anybody.get(`/openapi/v${version}.json`)
    t.equal(status, 200)
    const documented = (name: string) =>
      Object.keys(body.paths).some((path) => path.split('/').includes(name)) ||
      body.tags.some((tag: Json) => tag.name === name)
    t.same(names.removed.filter(documented), [], 'the removed resources are not documented')
    t.same(names.served.filter(documented), names.served, 'the others are')
    const { get: listOrders } = body.paths[`/api/v${version}/orders`] ?? {}
    const samples = JSON.stringify(listOrders?.['x-codeSamples'] ?? [])
    const gone = names.removed.flatMap((name) => relationsTo[name] ?? []).map(([, relation]) => relation)
    for (const relation of gone)
      t.notMatch(samples, new RegExp(`include[^,]*${relation}`), 'a sample includes no relation that is gone')
  }
}

for (const { name } of resources) {
  t.test(`the service works without ${name}`, async (t) => {
    // Without users there are no posts: their path begins with that of their user.
    const removed = getRemoved(name)
    const served = resources.filter((resource) => !removed.includes(resource))
    const started = await testApp(t, {}, { resources: served })
    const { admin, anybody, person } = started
    const { client, bearer } = await person('admin')

    for (const resource of served)
      t.equal((await client.get(`/${getPath(resource)}`)).status, 200, resource.name)
    for (const resource of removed) {
      const missing = await client.get(`/${getPath(resource)}`)
      t.equal(missing.status, 404, `no ${resource.name}`)
      t.equal(missing.body.error.code, 'RESOURCE_NOT_FOUND')
    }
    for (const [from, relation] of relationsTo[name] ?? []) {
      if (!served.some((resource) => resource.name === from)) continue
      const included = await client.get(`/${from}?include=${relation}`)
      t.equal(included.status, 400, `${from} cannot include ${relation}`)
    }

    const getNames = (definitions: typeof resources) => definitions.map((definition) => definition.name)
    await checkDocuments(t, started, { removed: getNames(removed), served: getNames(served) })
    for (const removedName of getNames(removed)) {
      const refused = await bearer.post('/api-keys', { name: 'Removed', scopes: [`${removedName}:read`] })
      t.equal(refused.status, 422, 'no API key can have its scope')
      t.match(refused.body.error.details, [{ field: 'scopes.0', code: 'INVALID_VALUE' }])
    }
    for (const servedName of getNames(served).slice(0, 1)) {
      const created = await bearer.post('/api-keys', { name: 'Served', scopes: [`${servedName}:read`] })
      t.equal(created.status, 201)
    }
    t.equal((await bearer.get('/sessions')).status, 200)
    t.equal((await anybody.get('/readyz')).status, 200)

    if (name === 'products') await checkOrders(t, started)
    else if (served.some((resource) => resource.name === 'products')) {
      const product = { sku: 'TEA-1', name: 'Tea', price_amount: 500 }
      t.equal((await admin.post('/products', product)).status, 201, 'the others are still written')
    }
  })
}

/** Orders work on the table of products, whether or not the API shows them. */
async function checkOrders(t: Test, { database, person }: TestApp) {
  const id = newId()
  await database.run(
    `insert into products (id, sku, name, price_amount, stock, status) values ($1, 'TEA-1', 'Tea', 500, 3, 'active')`,
    [id],
  )
  const { client } = await person('member')
  const ordered = await client.post('/orders', { items: [{ product_id: id, quantity: 2 }] })
  t.equal(ordered.status, 201, 'an order can be created')
  t.match(ordered.body.data, { total_amount: 1000, items: [{ sku: 'TEA-1' }] })
  const [product] = await database.run('select stock from products where id = $1', [id])
  t.equal(Number(product?.stock), 1, 'and takes stock')
  t.equal((await client.get(`/orders/${ordered.body.data.id}?include=user`)).status, 200)
}
