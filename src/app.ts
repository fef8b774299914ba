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
  type PasswordHasher,
} from '@resource-api/accounts'
import { authorize } from '@resource-api/api/access'
import { createAddressing, representRoutes, type Version, versionScope } from '@resource-api/api/versions'
import type { Database } from '@resource-api/database'
import { docs, documents } from '@resource-api/docs'
import { events, listBuiltIn, type Own } from '@resource-api/events'
import {
  admission,
  compression,
  countRequests,
  createServerOptions,
  database,
  health,
  http,
  metrics,
  openMigratedDatabase,
  type TimeoutOptions,
} from '@resource-api/http'
import { type Config, listOwnSecrets, loadAppSecret, pickOwnSettings } from '@resource-api/http/config'
import {
  batches,
  collections,
  createOwnRoutes,
  type OwnRoutes,
  type ResourcePlugin,
  resourceEngine,
} from '@resource-api/resources'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../plugins/auth.ts'
import caching from '../plugins/caching.ts'
import limits from '../plugins/limits.ts'
import security from '../plugins/security.ts'
import { versions as allVersions } from '../plugins/versions.ts'
import { own } from './own.ts'
import { resources as ownResources } from './resources.ts'

/** What a test replaces in the app. */
export interface AppOverrides {
  database?: Database
  versions?: readonly Version[]
  resources?: readonly ResourcePlugin[]
  routes?: readonly OwnRoutes[]
  /** The project's work, jobs and consumers. */
  own?: Partial<Pick<Own, 'work' | 'jobs' | 'consumers'>>
  /** Milliseconds that the claim of a job or a consumer lasts without being renewed. */
  leaseMs?: number
  /** The clock of rate limits, schedules and the identity provider's cached keys, in milliseconds since the epoch. */
  now?: () => number
  /** The password hash functions. */
  passwordHasher?: PasswordHasher | undefined
  timeouts?: TimeoutOptions
  /** The memory of all exports, in bytes. */
  maxExportBytes?: number
  /** The event loop delay from which requests are refused; a test that blocks the loop it shares raises it. */
  maxLoopDelayMs?: number
  /** The expected wait from which requests are refused; a test on a busy machine raises it. */
  maxWaitMs?: number
  /** Where log lines are written. */
  logs?: { write(line: string): void }
}

/** Builds the service, ready to listen. The server and the tests call it. */
export async function buildApp(config: Config, overrides: AppOverrides = {}): Promise<FastifyInstance> {
  const { resources = ownResources, routes = own.routes, versions = allVersions } = overrides
  const builtIn = listBuiltIn({ resources, routes, versions }, config)
  const { work, jobs, consumers } = { ...own, ...overrides.own }
  const given = { resources, builtIn, routes, versions, work, jobs, consumers, ownSecrets: listOwnSecrets() }
  const options = { ...config, ...overrides, ...given, APP_SECRET: await loadAppSecret(config) }

  const addressing = createAddressing(versions, config.DEFAULT_API_VERSION)
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
        await api.register(compression, scoped)
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
