/** Compiling resources resolves names, and an unknown name stops the start. */
import t from 'tap'
import { compileResources } from '../../plugins/collection/compile.ts'
import { postsResource } from '../../plugins/resources/posts.ts'
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
  t.equal(get('posts')?.parent?.to, get('users'))
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
  const orphans = { ...postsResource, relations: {} }
  await t.rejects(testApp(t, {}, { resources: [orphans] }), {
    message: 'posts: parent: there is no resource "users"',
  })
})

t.test('a filter or a range without an index stops the start, unless the definition says so', async (t) => {
  const compile = (changes: object) => compileResources([{ ...productsResource, ...changes }])
  t.throws(() => compile({ filters: ['name', 'stock'] }), {
    message:
      'products: no index begins with (stock), and "stock" is in filters or ranges. Add the index to the table, or add ' +
      '"stock" to unindexed in the definition, with a comment that says why',
  })
  t.throws(() => compile({ ranges: ['stock'] }), /no index begins with \(stock\)/)
  t.equal(compile({ ranges: ['stock'], unindexed: ['stock'] }).length, 1)
  t.throws(() => compile({ unindexed: ['stock'] }), /"stock" in unindexed is in neither filters nor ranges/)
  t.throws(
    () => compile({ filters: ['created_at'] }),
    /"created_at" in filters must be .* a time belongs in ranges/,
  )
  t.throws(() => compile({ filters: ['colour'] }), /"colour" in filters or ranges is no field/)
  t.throws(
    () => compile({ ranges: ['name'] }),
    /"name" in ranges must be an integer, a number, a date or a date-time/,
  )
  const others = resources.filter(({ name }) => name !== 'posts')
  // Its index begins with the user.
  t.throws(() => compileResources([...others, { ...postsResource, filters: ['published_at'] }]), {
    message: /^posts: no index begins with \(user_id, published_at\)/,
  })
})
