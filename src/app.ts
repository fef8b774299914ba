/** Registers the plugins, in the order in which a request passes them. */
import './application.ts'
import '../drizzle/index.ts'
import {
  accountPages,
  accountRoutes,
  accounts,
  authenticate,
  createFirstAdmin,
  keySet,
} from '@resource-api/accounts'
import { docs, documents } from '@resource-api/docs'
import { events, listBuiltIn } from '@resource-api/events'
import {
  admission,
  authorize,
  countRequests,
  createServerOptions,
  database,
  health,
  http,
  metrics,
  openMigratedDatabase,
} from '@resource-api/http'
import { type Config, listOwnSecrets, loadAppSecret, pickOwnSettings } from '@resource-api/http/config'
import { createAddressing, representRoutes, versionScope } from '@resource-api/http/versions'
import { batches, collections, createOwnRoutes, resourceEngine } from '@resource-api/resources'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../plugins/auth.ts'
import caching from '../plugins/caching.ts'
import limits from '../plugins/limits.ts'
import security from '../plugins/security.ts'
import { versions as allVersions } from '../plugins/versions.ts'
import type { AppOverrides } from './overrides.ts'
import { own } from './own.ts'
import { resources as ownResources } from './resources.ts'

/** Builds the service, ready to listen. The server and the tests call it. */
export async function buildApp(config: Config, overrides: AppOverrides = {}): Promise<FastifyInstance> {
  const { resources = ownResources, routes = own.routes, versions = allVersions } = overrides
  const builtIn = listBuiltIn({ resources, routes, versions }, config)
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
