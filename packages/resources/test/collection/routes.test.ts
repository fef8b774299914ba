/** The routes of a resource stand in its plugin. What does not fit its collection stops the start, with what to write. */
import type { FastifyPluginAsync } from 'fastify'
import t, { type Test } from 'tap'
import { buildApp } from '../../../../src/app.ts'
import { resources } from '../../../../src/resources.ts'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase, testFolder } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { replaceResource } from '../../../testing/helpers/serve.ts'
import { productsResource } from '../../../testing/helpers/shop.ts'
import { defineResource } from '../../src/collection/plugin.ts'
import { action, create, list, read, remove, replace, update } from '../../src/collection/routes.ts'

/** Products with the six operations. */
const { aggregates: _, isRestorable: __, ...declared } = productsResource
const products = { ...declared, operations: {} }

/** Starts an app whose products have these routes. */
const start = (t: Test, routes: FastifyPluginAsync, collection = products) =>
  testApp(
    t,
    {},
    { resources: replaceResource(resources, 'products', () => defineResource(collection, routes)) },
  )

const allRoutes: FastifyPluginAsync = async (app) => {
  app.get('/products', list(products))
  app.get('/products/:id', read(products))
  app.post('/products', create(products))
  app.put('/products/:id', replace(products))
  app.patch('/products/:id', update(products))
  app.delete('/products/:id', remove(products))
}

t.test('the routes of the plugin are those of the service', async (t) => {
  const { app } = await start(t, allRoutes)
  for (const version of [1, 2])
    for (const [method, path] of [
      ...(['GET', 'POST'] as const).map((each) => [each, 'products'] as const),
      ...(['GET', 'PUT', 'PATCH', 'DELETE'] as const).map((each) => [each, 'products/:id'] as const),
    ])
      t.ok(
        app.hasRoute({ method, url: `/api/v${version}/${path}` }),
        `${method} ${path} of version ${version}`,
      )
  // Those of other methods, which are 405, stand behind them.
  t.match(app.printRoutes({ commonPrefix: false }), /products \(GET, HEAD, POST, /)
})

for (const [title, routes, message] of [
  [
    'a route is missing',
    async (app) => {
      app.get('/products', list(products))
      app.get('/products/:id', read(products))
      app.post('/products', create(products))
      app.put('/products/:id', replace(products))
      app.patch('/products/:id', update(products))
    },
    `products: "remove" has access but no route; write app.delete('/products/:id', remove(...)), or remove it from \`access\``,
  ],
  [
    'a route stands under the path of another resource',
    async (app) => {
      app.post('/goods', create(products))
    },
    "products: the route POST /api/v1/goods does not fit; write app.post('/products', create(...))",
  ],
  [
    'a route has another method',
    async (app) => {
      app.post('/products/:id', update(products))
    },
    "products: the route POST /api/v1/products/:id does not fit; write app.patch('/products/:id', update(...))",
  ],
  [
    'an action has no access',
    async (app) => {
      await allRoutes(app, {})
      const texts = { operationId: 'countProduct', summary: 'Count', description: 'Counts.' }
      app.post(
        '/products/:id/counts',
        action(products, texts, async ({ current }) => current),
      )
    },
    'products: "counts" has a route but no access; add it to `access.actions`',
  ],
  [
    'a resource is registered twice',
    async (app) => {
      await allRoutes(app, {})
      await app.register(allRoutes)
    },
    'products: the route of "list" is registered twice',
  ],
] satisfies [string, FastifyPluginAsync, string][])
  t.test(`the start fails if ${title}`, async (t) => {
    await t.rejects(start(t, routes), { message })
  })

t.test('the start fails for a route outside the scope of a version', async (t) => {
  const opened = await testDatabase(t)
  const settings = {
    ADMIN_API_KEY: ADMIN_KEY,
    APP_SECRET,
    DATA_DIR: testFolder(t),
    DATABASE_SCHEMA: opened.schema,
  }
  const config = readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent', ...settings })
  const app = await buildApp(config, { database: opened })
  t.teardown(() => app.close())
  app.get('/products', list(products))
  await t.rejects(async () => void (await app.ready()), {
    message: /^Routes without config\.access, .*: GET \/products/,
  })
})

t.test('the start fails for a body without a value that its column needs', async (t) => {
  const { required: _required, ...input } = products.schemas.create
  const schemas = { ...products.schemas, create: { ...input, required: ['sku', 'name'] } }
  await t.rejects(start(t, allRoutes, { ...products, schemas }), {
    message:
      'products: "price_amount" is optional in the schema "create", and its column is NOT NULL without a default: ' +
      'without Type.Optional it is required; or give it a `default` in the schema',
  })
  const code: FastifyPluginAsync = async (app) => {
    app.get('/products', list(products))
    app.get('/products/:id', read(products))
    app.post(
      '/products',
      create(products, ({ store, id, body }) =>
        store.insert({ ...body, id, ...(body.name === 'Gift' && { price_amount: 0 }) }),
      ),
    )
    app.put('/products/:id', replace(products))
    app.patch('/products/:id', update(products))
    app.delete('/products/:id', remove(products))
  }
  const { admin } = await start(t, code, { ...products, schemas })
  const created = await admin.post('/products', { sku: 'NOT-NULL-1', name: 'Gift' })
  t.match([created.status, created.body.data], [201, { price_amount: 0 }], created.text)
  const lacking = { sku: 'NOT-NULL-2', name: 'Tea' }
  const refused = await admin.post('/products', lacking)
  t.same([refused.status, getViolations(refused)], [422, ['price_amount REQUIRED']], refused.text)
  const headers = { 'content-type': 'application/x-ndjson' }
  const body = JSON.stringify(lacking)
  const imported = await admin.call('POST', '/products', { headers, body })
  t.same([imported.status, getViolations(imported)], [422, ['rows.1.price_amount REQUIRED']], imported.text)
})

t.test('the start fails for a route without access, and for one of a collection in no list', async (t) => {
  const { remove: _, ...access } = products.access
  const closed = { ...products, access, verbs: products.verbs.filter((verb) => verb !== 'remove') }
  await t.rejects(start(t, allRoutes, closed), {
    message: 'products: "remove" has a route but no access; add it to `access`',
  })
  const unlisted = { ...products, name: 'goods' }
  const routes: FastifyPluginAsync = async (app) => {
    app.get('/goods', list(unlisted))
  }
  await t.rejects(start(t, routes), { message: 'goods: the collection is in no list of resources' })
})
