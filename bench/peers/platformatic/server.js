/** Platformatic DB in production mode, in this process: the threads of its runtime would only add to the cost. */
import etag from '@fastify/etag'
import { create, platformaticDatabase } from '@platformatic/db'

const searchText = ({ sku, name, description }) =>
  [sku, name, description].filter(Boolean).join('\n').toLowerCase()

/** What any user of it would add: the column that is searched, and, where it is asked for, entity tags. */
async function application(scope, capability) {
  if (process.env.ETAGS === 'true') await scope.register(etag)
  await platformaticDatabase(scope, capability)
  scope.platformatic.addEntityHooks('product', {
    save: (next, options) =>
      next({ ...options, input: { ...options.input, search: searchText(options.input) } }),
    insert: (next, options) =>
      next({
        ...options,
        inputs: options.inputs.map((input) => ({ ...input, search: searchText(input) })),
      }),
  })
}
// Platformatic's own mark: hooks and decorators of the application are those of the server.
application[Symbol.for('skip-override')] = true

const app = await create(import.meta.dirname, undefined, {
  isProduction: true,
  isEntrypoint: true,
  applicationFactory: application,
})
await app.init()
// In a container it would listen to everybody.
app.serverConfig.hostname = '127.0.0.1'
await app.start({ listen: true })
