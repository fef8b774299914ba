/** Starts Platformatic DB in production mode, without the worker threads of its runtime, which would add CPU time. */
import etag from '@fastify/etag'
import { create, platformaticDatabase } from '@platformatic/db'

const createSearchText = ({ sku, name, description }) =>
  [sku, name, description].filter(Boolean).join('\n').toLowerCase()

/** Adds the search column and, if ETAGS is set, entity tags. */
async function registerApplication(scope, capability) {
  if (process.env.ETAGS === 'true') await scope.register(etag)
  await platformaticDatabase(scope, capability)
  scope.platformatic.addEntityHooks('product', {
    save: (next, options) =>
      next({ ...options, input: { ...options.input, search: createSearchText(options.input) } }),
    insert: (next, options) =>
      next({
        ...options,
        inputs: options.inputs.map((input) => ({ ...input, search: createSearchText(input) })),
      }),
  })
}
// As in fastify-plugin: hooks and decorators of the application apply to the whole server.
registerApplication[Symbol.for('skip-override')] = true

const app = await create(import.meta.dirname, undefined, {
  isProduction: true,
  isEntrypoint: true,
  applicationFactory: registerApplication,
})
await app.init()
// In a container, Platformatic would listen on all interfaces.
app.serverConfig.hostname = '127.0.0.1'
await app.start({ listen: true })
