/** Compiling resources resolves names, and an unknown name stops the start. */
import t from 'tap'
import { compileResources } from '../../plugins/collection/compile.ts'
import { productsResource } from '../../plugins/resources/products.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'

t.test('relations and parents refer to the compiled resources', async (t) => {
  const compiled = compileResources(resources)
  const get = (name: string) => compiled.find((resource) => resource.name === name)
  t.same(
    compiled.map(({ name }) => name),
    resources.map(({ name }) => name),
  )
  for (const { name, parent } of resources) if (parent) t.equal(get(name)?.parent?.to, get(parent.to))
  t.equal(get('users')?.relations.orders?.to, get('orders'))
  t.equal(get('orders')?.relations.user?.to, get('users'))
})

t.test('a relation to an unregistered resource stops the start with its name', async (t) => {
  const related = { to: 'reviews', local: 'id', foreign: 'product_id', many: true }
  const reviewed = { ...productsResource, relations: { reviews: related } }
  await t.rejects(testApp(t, {}, { resources: [reviewed] }), {
    message: 'products: relation "reviews": there is no resource "reviews"',
  })
})

t.test('an unregistered parent stops the start with its name', async (t) => {
  const orphans = { ...productsResource, parent: { to: 'users', member: 'user_id' } }
  await t.rejects(testApp(t, {}, { resources: [orphans] }), {
    message: 'products: parent: there is no resource "users"',
  })
})
