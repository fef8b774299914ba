/** Registers the plugins, in the order in which a request passes them. */
import '../drizzle/index.ts'
import Fastify, { type FastifyInstance } from 'fastify'
import { authorize } from '../plugins/access/index.ts'
import accounts, { accountRoutes } from '../plugins/accounts/index.ts'
import { accountPages } from '../plugins/accounts/pages/index.ts'
import admission from '../plugins/admission/index.ts'
import authenticate from '../plugins/auth/index.ts'
import { keySet } from '../plugins/auth/tokens/index.ts'
import auth from '../plugins/auth.ts'
import caching from '../plugins/caching.ts'
import { batches } from '../plugins/collection/batches.ts'
import resourceEngine from '../plugins/collection/index.ts'
import { createOwnRoutes, listRouteScopes } from '../plugins/collection/own-routes.ts'
import collections from '../plugins/collection/plugin.ts'
import { loadAppSecret } from '../plugins/config/secrets.ts'
import database, { openMigratedDatabase } from '../plugins/database/index.ts'
import events from '../plugins/events/index.ts'
import http from '../plugins/http/index.ts'
import { createServerOptions } from '../plugins/http/server-options.ts'
import limits from '../plugins/limits.ts'
import metrics from '../plugins/observability/metrics/index.ts'
import docs, { documents } from '../plugins/openapi/index.ts'
import health from '../plugins/operations/health.ts'
import { countRequests } from '../plugins/rate-limit/index.ts'
import security from '../plugins/security.ts'
import versionScope, { versions as allVersions, createAddressing } from '../plugins/versioning/index.ts'
import representRoutes from '../plugins/versioning/represent-routes.ts'
import { createBuiltInResources } from './built-in-resources.ts'
import { type Config, listOwnSecrets, type OwnConfig, pickOwnSettings } from './config.ts'
import { createFirstAdmin } from './first-admin.ts'
import type { AppOverrides } from './overrides.ts'
import { own } from './own.ts'
import { resources as ownResources } from './resources.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The values of the project's own settings. */
    settings: OwnConfig
  }
}

/** Builds the service, ready to listen. The server and the tests call it. */
export async function buildApp(config: Config, overrides: AppOverrides = {}): Promise<FastifyInstance> {
  const { resources = ownResources, routes = own.routes, versions = allVersions } = overrides
  const definitions = resources.map(({ collection }) => collection)
  const builtIn = createBuiltInResources(definitions, listRouteScopes(routes), versions, config)
  const { jobs, consumers } = { ...own, ...overrides.own }
  const given = { resources, builtIn, routes, versions, jobs, consumers, ownSecrets: listOwnSecrets() }
  const options = { ...config, ...overrides, ...given, APP_SECRET: await loadAppSecret(config) }

  const addressing = createAddressing(versions, config.DEFAULT_API_VERSION, [...resources, ...builtIn])
  const app: FastifyInstance = Fastify(await createServerOptions(options, addressing, () => app))
  app.decorate('addressing', addressing)
  app.decorate('settings', pickOwnSettings(config))
  const opened = overrides.database ?? (await openMigratedDatabase(config, app.log))

  await app.register(http, options) // errors, logs, headers, CORS, the form of requests, timeouts, shutdown
  await app.register(database, { ...options, database: opened, isServed: !overrides.database })
  await app.register(admission, options) // overload: the queue, 503
  await app.register(resourceEngine, options)
  for (const warning of await createFirstAdmin(config, opened)) app.log.warn(warning)
  await app.register(limits, options) // @fastify/rate-limit
  await app.register(auth, options) // @fastify/jwt
  await app.register(accounts, options)
  await app.register(events, options)
  await app.register(docs, options)
  await app.register(health)
  await app.register(metrics, options)

  // Outside the versions: pages, documents and keys.
  await app.register(async (pages) => {
    await pages.register(security) // @fastify/helmet
    await pages.register(accountPages, options)
    await pages.register(async (cached) => {
      await cached.register(caching) // @fastify/etag
      await cached.register(keySet)
      await cached.register(documents, options)
    })
  })

  for (const version of versions)
    await app.register(
      async (api) => {
        const scoped = { ...options, ...version }
        await api.register(versionScope, scoped) // OPTIONS, 405, 406, 410
        await api.register(authenticate) // request.actor, or 401
        await api.register(countRequests) // 429
        await api.register(authorize) // 403
        await api.register(collections, scoped)
        await api.register(representRoutes, scoped) // the envelope
        for (const resource of [...resources, ...builtIn]) await api.register(resource)
        await api.register(batches, scoped)
        await api.register(accountRoutes)
        for (const each of routes) await api.register(createOwnRoutes(each))
        app.answerOtherMethods(api)
      },
      { prefix: `/api/v${version.representation.version}` },
    )
  app.answerOtherMethods(app)
  return app
}
