/** The routes of a resource stand in its plugin. What does not fit its collection stops the start, with what to write. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyPluginAsync, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import { buildApp } from '../../../../src/app.ts'
import { resources } from '../../../../src/resources.ts'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase, testFolder } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { replaceResource } from '../../../testing/helpers/serve.ts'
import { productsResource } from '../../../testing/helpers/shop.ts'
import type { ResourceDefinition } from '../../src/definition/definition.ts'
import type { VersionedResource } from '../../src/operations/context.ts'
import { operation } from '../../src/routes/operation.ts'
import { defineResource } from '../../src/routes/plugin.ts'
import { action, create, list, read, remove, replace, update } from '../../src/routes/routes.ts'

type Routes = (app: FastifyInstance, resource: VersionedResource) => Promise<void>

/** Products with the six operations. */
const { aggregates: _, isRestorable: __, ...declared } = productsResource
const products: ResourceDefinition = { ...declared, operations: {} }

/** Starts an app whose products have these routes. */
const start = (t: Test, routes: Routes, collection = products) =>
  testApp(
    t,
    {},
    { resources: replaceResource(resources, 'products', () => defineResource(collection, routes)) },
  )

/** Registers the six operations, without those that are left out. */
const createRoutes =
  (path: string, except: readonly string[] = []): Routes =>
  async (app, resource) => {
    const routes = {
      list: () => app.get(path, list(resource)),
      read: () => app.get(`${path}/:id`, read(resource)),
      create: () => app.post(path, create(resource)),
      replace: () => app.put(`${path}/:id`, replace(resource)),
      update: () => app.patch(`${path}/:id`, update(resource)),
      remove: () => app.delete(`${path}/:id`, remove(resource)),
    }
    for (const [name, register] of Object.entries(routes)) if (!except.includes(name)) register()
  }

const allRoutes = createRoutes('/products')

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

t.test(
  'a hook that is there before the resources sees what runs: schema, configuration and handler',
  async (t) => {
    const seen = new Map<string, RouteOptions>()
    const results: unknown[] = []
    // As @fastify/otel adds its hooks: before any plugin.
    const addHook = (message: unknown) => {
      const { fastify } = message as { fastify: FastifyInstance }
      fastify.addHook('onRoute', (route) => {
        const name = `${route.method} ${route.url}`
        seen.set(name, { ...route })
        const { handler } = route
        if (name !== 'POST /api/v2/products') return
        route.handler = async function (...args) {
          const result = await handler.apply(this, args)
          results.push(result)
          return result
        }
      })
    }
    subscribe('fastify.initialization', addHook)
    const { admin } = await start(t, allRoutes).finally(() => unsubscribe('fastify.initialization', addHook))

    const versioned = [...seen.values()].filter(
      ({ config, url }) => url.startsWith('/api/v') && config?.allow === undefined,
    )
    t.ok(versioned.length > 50)
    for (const { config, handler, method, schema, url } of versioned) {
      t.type(handler, 'function', `${method} ${url}`)
      t.ok(config?.access, `${method} ${url}`)
      t.ok(schema?.querystring, `${method} ${url}`)
    }
    const route = seen.get('POST /api/v2/products')
    t.match(route, {
      config: { access: 'products:create', hasDryRun: true, isImport: true },
      schema: {
        operationId: 'createProduct',
        params: { type: 'object' },
        querystring: { properties: { dry_run: { type: 'boolean' }, on_conflict: { enum: ['sku'] } } },
        headers: { properties: { 'Idempotency-Key': { type: 'string' } } },
        body: { required: ['sku', 'name', 'price_amount'], properties: { stock: { minimum: 0 } } },
        response: { 201: { description: 'Created' } },
      },
    })
    t.match(seen.get('GET /api/v1/products'), {
      config: { access: 'products:list', getCost: Function, streams: ['ndjson', 'csv'] },
      schema: {
        querystring: { properties: { limit: { type: 'integer' } } },
        response: { 200: { description: 'A page' } },
      },
    })

    const body = { data: { type: 'products', attributes: { sku: 'a', name: 'Tea', price_amount: 450 } } }
    const { body: created, status } = await admin.post('/api/v2/products', body)
    t.equal(status, 201)
    // The version adds the envelope, and nothing else.
    t.match(results, [{ entity: { type: 'products', members: { id: created.data.id, name: 'Tea' } } }])
  },
)

for (const [title, routes, message] of [
  [
    'a route is missing',
    createRoutes('/products', ['remove']),
    `products: "remove" has access but no route; write app.delete('/products/:id', remove(resource)), or remove it from \`access\``,
  ],
  [
    'a route is missing under a path of its own',
    createRoutes('/shop/goods', ['remove']),
    `products: "remove" has access but no route; write app.delete('/shop/goods/:id', remove(resource)), or remove it from \`access\``,
  ],
  [
    'a path lacks the id',
    async (app, resource) => void app.get('/products/one', read(resource)),
    "products: the route GET /api/v1/products/one does not fit; write app.get('/products/:id', read(resource))",
  ],
  [
    'a path has a parameter that the resource does not have',
    async (app, resource) => void app.post('/shops/:shop_id/products', create(resource)),
    "products: the route POST /api/v1/shops/:shop_id/products does not fit; write app.post('/products', create(resource))",
  ],
  [
    'a route has another method',
    async (app, resource) => void app.post('/goods/:id', update(resource)),
    "products: the route POST /api/v1/goods/:id does not fit; write app.patch('/goods/:id', update(resource))",
  ],
  [
    'an action has no access',
    async (app, resource) => {
      await allRoutes(app, resource)
      const texts = { operationId: 'countProduct', summary: 'Count', description: 'Counts.' }
      app.post(
        '/products/:id/counts',
        action(resource, 'counts', texts, async ({ current }) => current),
      )
    },
    'products: "counts" has a route but no access; add it to `access.actions`',
  ],
  [
    'a resource is registered twice',
    async (app, resource) => {
      await allRoutes(app, resource)
      await allRoutes(app, resource)
    },
    'products: the route of "list" is registered twice',
  ],
] satisfies [string, Routes, string][])
  t.test(`the start fails if ${title}`, async (t) => {
    await t.rejects(start(t, routes), { message })
  })

t.test('the start fails for a route outside the scope of a version', async (t) => {
  for (const [plugin, message] of [
    [
      resources.find(({ collection }) => collection.name === 'products'),
      'products: its plugin is registered outside of a version, or it is in no list of resources',
    ],
    [
      (async (app) => {
        app.get('/reports', operation({ access: 'authenticated', run: async () => ({}) }))
      }) satisfies FastifyPluginAsync,
      'The route GET /reports is outside of a version, where nothing checks its access',
    ],
  ] as const) {
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
    if (!plugin) throw new Error('There are no products')
    await t.rejects(async () => void (await app.register(plugin)), { message })
  }
})

t.test('the start fails for a body without a value that its column needs', async (t) => {
  const { required: _required, ...input } = products.schemas.create
  const schemas = { ...products.schemas, create: { ...input, required: ['sku', 'name'] } }
  await t.rejects(start(t, allRoutes, { ...products, schemas }), {
    message:
      'products: "price_amount" is optional in the schema "create", and its column is NOT NULL without a default: ' +
      'without Type.Optional it is required; or give it a `default` in the schema',
  })
  const code: Routes = async (app, resource) => {
    await createRoutes('/products', ['create'])(app, resource)
    app.post(
      '/products',
      create(resource, ({ store, body }) =>
        store.insert({ ...body, ...(body.name === 'Gift' && { price_amount: 0 }) }),
      ),
    )
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
  const unlisted = defineResource({ ...products, name: 'goods' }, createRoutes('/goods'))
  await t.rejects(
    start(t, async (app) => unlisted(app, {})),
    { message: /^goods: its plugin is registered outside of a version, or it is in no list of resources/ },
  )
})
