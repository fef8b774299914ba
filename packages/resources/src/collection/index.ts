/** Compiles the resources of the app, and registers what their routes need in all versions. */

import {
  access,
  type ExportOptions,
  exportPlaces,
  isCheckingSchemas,
  listScopes,
  type RunConfig,
} from '@resource-api/http/internal'
import type { Version } from '@resource-api/http/versions'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import idempotency from '../idempotency/index.ts'
import outbox from '../outbox/index.ts'
import { createRecorders } from '../outbox/recorder.ts'
import { checkExamples } from './check/examples.ts'
import { findViewMistakes } from './check/views.ts'
import { compileResources } from './compile.ts'
import imports, { type ImportConfig } from './imports.ts'
import { addInverses } from './inverses.ts'
import { listRouteScopes, type OwnRoutes } from './own-routes.ts'
import type { ResourcePlugin } from './plugin.ts'
import type { Resource } from './resource.ts'
import { readCatalog } from './sql/table-facts.ts'

interface ResourcesOptions
  extends ImportConfig,
    ExportOptions,
    Pick<RunConfig, 'ALLOW_SIGNUP' | 'APP_SECRET' | 'EVENTS' | 'HIDE_FORBIDDEN' | 'NODE_ENV'> {
  /** Those of the application. */
  resources: readonly ResourcePlugin[]
  /** Those of credentials, events and webhooks. */
  builtIn: readonly ResourcePlugin[]
  routes: readonly OwnRoutes[]
  versions: readonly Version[]
}

declare module 'fastify' {
  interface FastifyInstance {
    versions: readonly Version[]
    /** The URLs of the operations of collections by their access, such as `users:list`: those of the last version. */
    operationUrls: ReadonlyMap<string, string>
    /** All compiled resources. */
    resources: readonly Resource[]
    /** Those of the application, which batches and agents can write. */
    ownResources: readonly Resource[]
  }
}

async function resources(app: FastifyInstance, options: ResourcesOptions) {
  const { builtIn, EVENTS, resources: own, routes, versions } = options
  const definitions = [...own, ...builtIn].map(({ collection }) => collection)
  const recorders = createRecorders(EVENTS ? addInverses(definitions) : [])
  const tables = definitions.filter(({ isView }) => !isView).map(({ table }) => table)
  const compiled = compileResources(definitions, recorders, await readCatalog(app.database, tables))
  if (isCheckingSchemas(options)) checkExamples(definitions)
  const mistakes = await findViewMistakes(app.database, compiled, (name) =>
    app.log.warn(`${name}: its view is too slow to be checked`),
  )
  // The rows of a production server change while it runs: they must not keep it from its next start.
  if (mistakes.length > 0 && isCheckingSchemas(options)) throw new Error(mistakes.join('\n'))
  for (const mistake of mistakes) app.log.error(mistake)
  app.decorate('versions', versions)
  app.decorate('resources', compiled)
  app.decorate('ownResources', compiled.slice(0, own.length))
  app.decorate('ownRoutes', [])
  const urls = new Map<string, string>()
  app.decorate('operationUrls', urls)
  app.addHook('onRoute', function ({ config, method, url }) {
    const { access: given, operation } = config ?? {}
    if (operation?.of) urls.set(String(given), url)
    if (!operation || given === 'public') return
    const isAuthenticated = this.hasRequestDecorator('mayChangeCredentials')
    if (given === 'authenticated' ? isAuthenticated : this.hasDecorator('hasAuthorization')) return
    throw new Error(`The route ${method} ${url} is outside of a version, where nothing checks its access`)
  })
  await app.register(outbox, { recorders })
  await app.register(idempotency, options)
  await app.register(access, { ...options, scopes: listScopes(definitions, listRouteScopes(routes)) })
  await app.register(exportPlaces, options)
  await app.register(imports, options)
}

export default fp(resources, { name: 'resources', dependencies: ['errors', 'database'] })
