/** Registers the plugins, in the order in which a request passes them. */
import Fastify, { type FastifyInstance } from 'fastify'
import { type Database, openDatabase } from '../drizzle/client/index.ts'
import { ensureMigrated, migrate } from '../drizzle/migrate.ts'
import { ensureSchema } from '../drizzle/schema-check.ts'
import access, { authorize } from '../plugins/access/index.ts'
import { listScopes } from '../plugins/access/scopes.ts'
import accounts from '../plugins/accounts/index.ts'
import { accountPages } from '../plugins/accounts/pages/index.ts'
import { resetRoutes, resetsTag } from '../plugins/accounts/reset-routes.ts'
import { verificationRoutes, verificationsTag } from '../plugins/accounts/verification-routes.ts'
import exportPlaces, { type ExportOptions } from '../plugins/admission/export-places.ts'
import admission from '../plugins/admission/index.ts'
import auth, { credentials, peekActor } from '../plugins/auth/index.ts'
import passwords, { type PasswordHasher } from '../plugins/auth/passwords.ts'
import signInAddresses from '../plugins/auth/sign-in-addresses.ts'
import tokens from '../plugins/auth/tokens/index.ts'
import background from '../plugins/background/index.ts'
import { batches, batchesTag, writeRoutes } from '../plugins/collection/batches.ts'
import { checkExamples } from '../plugins/collection/check/examples.ts'
import { compileResources } from '../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import imports from '../plugins/collection/imports.ts'
import { addInverses } from '../plugins/collection/inverses.ts'
import { createOwnRoutes, type OwnRoutes } from '../plugins/collection/own-routes.ts'
import collections, { type ResourcePlugin } from '../plugins/collection/plugin.ts'
import type { Resource } from '../plugins/collection/resource.ts'
import connectionShares from '../plugins/connection-shares.ts'
import consumers from '../plugins/consumers/index.ts'
import database from '../plugins/database.ts'
import embeddedDatabase from '../plugins/embedded-database.ts'
import errors from '../plugins/errors/index.ts'
import events from '../plugins/events/index.ts'
import compression from '../plugins/http/compression.ts'
import contentType from '../plugins/http/content-type.ts'
import cors from '../plugins/http/cors.ts'
import methodNotAllowed from '../plugins/http/method-not-allowed.ts'
import { createParserErrors } from '../plugins/http/parser-errors.ts'
import headNotModified from '../plugins/http/preconditions.ts'
import requestValidation from '../plugins/http/request-validation.ts'
import responseHeaders from '../plugins/http/response-headers.ts'
import { frameworkErrors } from '../plugins/http/responses-without-hooks.ts'
import timeouts, { type TimeoutOptions } from '../plugins/http/timeouts.ts'
import idempotency from '../plugins/idempotency/index.ts'
import jobs from '../plugins/jobs/index.ts'
import mail from '../plugins/mail/index.ts'
import mcp from '../plugins/mcp/index.ts'
import { createLoggingOptions } from '../plugins/observability/logging/index.ts'
import metrics, { requestMetrics } from '../plugins/observability/metrics/index.ts'
import tracing, { openTracing } from '../plugins/observability/tracing/index.ts'
import docs from '../plugins/openapi/index.ts'
import health from '../plugins/operations/health.ts'
import shutdown from '../plugins/operations/shutdown.ts'
import outbox from '../plugins/outbox/index.ts'
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import limits, { countRequests } from '../plugins/rate-limit/index.ts'
import { tokens as tokenRoutes, tokensTag } from '../plugins/resources/tokens.ts'
import sharedWriters from '../plugins/shared-writers.ts'
import userProfiles from '../plugins/user-profiles.ts'
import users from '../plugins/users.ts'
import { serializerOptions } from '../plugins/validation/formats.ts'
import validation, { createSerializerFactory } from '../plugins/validation/index.ts'
import versionScope, {
  createAddressing,
  createStreamFinder,
  listServed,
  type Version,
  versions,
} from '../plugins/versioning/index.ts'
import webhooks from '../plugins/webhooks/index.ts'
import { describeWebhooks } from '../plugins/webhooks/openapi.ts'
import { createBuiltInResources } from './built-in-resources.ts'
import { type Config, type OwnConfig, pickOwnSettings, readConfig } from './config.ts'
import type { Own } from './define-own.ts'
import { createFirstAdmin } from './first-admin.ts'
import { createAddressReader, getServerOptions } from './http-options.ts'
import {
  createIdentityProvider,
  getDatabaseOptions,
  getLoggingOptions,
  getPluginOptions,
  getWebhookOptions,
  routerOptions,
} from './options.ts'
import { own } from './own.ts'
import { release } from './release.ts'
import { loadAppSecret } from './secrets.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The values of the project's own settings. */
    settings: OwnConfig
  }
}

/** The resources, besides those of credentials and events. */
export const resources: readonly ResourcePlugin[] = [users, userProfiles, ...own.resources]

/** Returns the collections of resources. */
const toDefinitions = (plugins: readonly ResourcePlugin[]) => plugins.map(({ collection }) => collection)

const listRouteScopes = (routes: readonly OwnRoutes[]) => routes.flatMap(({ scopes = [] }) => scopes)

/** Returns all scopes that an API key can have. */
export const listAllScopes = (config?: Config): string[] =>
  listScopes(listDefinitions(config), listRouteScopes(own.routes))

/** Returns all definitions of an app, by default with the default settings, for documents, commands and tests. */
export function listDefinitions(config = readConfig({})): ResourceDefinition[] {
  const webhookOptions = {
    ...getWebhookOptions(config, ''),
    versions: versions.map(({ representation }) => representation.version),
    listServed: () => listServed(versions),
    listRecorded: () => [],
  }
  const definitions = toDefinitions(resources)
  const builtIn = createBuiltInResources(definitions, listRouteScopes(own.routes), config, webhookOptions)
  return [...definitions, ...toDefinitions(builtIn)]
}

/** Returns whether changes of a resource are events. */
const isRecorded = ({ isRecorded: hasEvents = true }: Pick<ResourceDefinition, 'isRecorded'>) => hasEvents

/** Returns the recorders of all resources; none if events are turned off. */
export const listRecorders = (config: Config): Recorders =>
  createRecorders(config.EVENTS ? addInverses(listDefinitions(config)).filter(isRecorded) : [])

/** What a test replaces in the app. */
export interface AppOverrides {
  database?: Database
  versions?: readonly Version[]
  resources?: readonly ResourcePlugin[]
  routes?: readonly OwnRoutes[]
  /** The project's jobs and consumers. */
  own?: Partial<Pick<Own, 'jobs' | 'consumers'>>
  /** Milliseconds that the claim of a job or a consumer lasts without being renewed. */
  leaseMs?: number
  /** The clock of rate limits, schedules and the identity provider's cached keys, in milliseconds since the epoch. */
  now?: () => number
  /** The password hash functions. */
  passwordHasher?: PasswordHasher | undefined
  timeouts?: TimeoutOptions
  exports?: Pick<ExportOptions, 'maxBytes'>
  /** The event loop delay from which requests are refused; a test that blocks the loop it shares raises it. */
  maxLoopDelayMs?: number
  /** The expected wait from which requests are refused; a test on a busy machine raises it. */
  maxWaitMs?: number
  /** Where log lines are written. */
  logs?: { write(line: string): void }
}

/** Opens the database, and migrates it unless a setting forbids that. @returns it, and the warnings of the schema check */
async function openMigratedDatabase(config: Config): Promise<{ opened: Database; warnings: string[] }> {
  const opened = await openDatabase(getDatabaseOptions(config))
  try {
    if (config.MIGRATE) await migrate(opened, { lockWaitMs: config.MIGRATION_TIMEOUT })
    else await ensureMigrated(opened)
    return { opened, warnings: await ensureSchema(opened) }
  } catch (error) {
    await opened.close()
    throw error
  }
}

/** Builds the service, ready to listen. The server and the tests call it. */
export async function buildApp(config: Config, overrides: AppOverrides = {}): Promise<FastifyInstance> {
  const { opened, warnings } = overrides.database
    ? { opened: overrides.database, warnings: [] }
    : await openMigratedDatabase(config)
  const secret = await loadAppSecret(config)
  const connections = opened.kind === 'embedded' ? 1 : config.POOL_SIZE
  const pluginOptions = getPluginOptions(config, secret, connections)
  const options = pluginOptions.collections
  const all = overrides.versions ?? versions
  const ownResources = overrides.resources ?? resources
  const definitions = toDefinitions(ownResources)
  const routes = overrides.routes ?? own.routes
  const routeScopes = listRouteScopes(routes)
  const representations = all.map(({ representation }) => representation)
  const numbers = representations.map(({ version }) => version)
  const allResources = [
    ...ownResources,
    ...createBuiltInResources(definitions, routeScopes, config, {
      ...pluginOptions.webhooks,
      versions: numbers,
      listServed: () => listServed(all),
      listRecorded: () => served.filter(isRecorded),
    }),
  ]
  const allDefinitions = toDefinitions(allResources)
  const isBatched = (resource: { name: string }) => definitions.some(({ name }) => name === resource.name)
  const recorders = createRecorders(config.EVENTS ? addInverses(allDefinitions).filter(isRecorded) : [])
  const served: Resource[] = compileResources(allDefinitions, recorders)
  // `npm run build` checks them too. With 100 resources, the check of the examples alone takes 0.5 s.
  const checksSchemas = config.NODE_ENV !== 'production'
  if (checksSchemas) checkExamples(allDefinitions)
  const findServed = (wanted: string) => served.find(({ name }) => name === wanted)
  const addresses = createAddressing(all, config.DEFAULT_API_VERSION, createStreamFinder(served))
  const parserErrors = createParserErrors(addresses)
  const getClientAddress = createAddressReader(config)
  const now = overrides.now ?? Date.now
  const provider = await createIdentityProvider(config, now)
  const adminWarnings = await createFirstAdmin(config, opened)

  const app: FastifyInstance = Fastify({
    ...getServerOptions(config, (serve) => (request, response) => app.admit(request, response, serve)),
    ...(await createLoggingOptions({
      ...getLoggingOptions(config),
      ...(overrides.logs && { stream: overrides.logs }),
    })),
    rewriteUrl: addresses.rewriteUrl,
    clientErrorHandler: parserErrors.clientErrorHandler,
    frameworkErrors,
    routerOptions,
    serializerOpts: serializerOptions,
    schemaController: { compilersFactory: { buildSerializer: createSerializerFactory(checksSchemas) } },
  })
  app.decorate('addressing', addresses)
  app.decorate('settings', pickOwnSettings(config))
  for (const warning of [...warnings, ...adminWarnings]) app.log.warn(warning)

  const tracer = await openTracing({ endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT, release, log: app.log })

  await app.register(errors, {
    getErrorEnvelope: (request) => addresses.getAddress(request).representation.error,
  })
  await app.register(validation, { checksSchemas })
  await app.register(tracing, { tracer })
  await app.register(requestMetrics, pluginOptions.requestMetrics)
  await app.register(responseHeaders, pluginOptions.transport)
  await app.register(cors, pluginOptions.cors)
  await app.register(parserErrors.plugin)
  await app.register(methodNotAllowed)
  await app.register(requestValidation)
  await app.register(headNotModified)
  await app.register(timeouts, overrides.timeouts ?? {})
  await app.register(database, { database: tracer?.traceDatabase(opened) ?? opened })
  await app.register(connectionShares, { connections, acquireTimeout: overrides.maxWaitMs })
  await app.register(background)
  if (!overrides.database && opened.kind === 'embedded')
    await app.register(embeddedDatabase, { database: opened, dataDir: config.DATA_DIR })
  await app.register(outbox, { recorders })
  await app.register(mail, pluginOptions.mail)
  await app.register(idempotency, pluginOptions.idempotency)
  await app.register(shutdown, pluginOptions.shutdown)
  await app.register(admission, {
    ...pluginOptions.admission,
    maxLoopDelayMs: overrides.maxLoopDelayMs,
    maxWaitMs: overrides.maxWaitMs,
    countOverloaded: (request) =>
      app.limits.countOverloaded(peekActor(app, request.headers), getClientAddress(request)),
  })
  await app.register(access, { ...pluginOptions.access, scopes: listScopes(allDefinitions, routeScopes) })
  await app.register(passwords, { ...pluginOptions.passwords, hasher: overrides.passwordHasher })
  await app.register(tokens, pluginOptions.tokens)
  await app.register(signInAddresses, pluginOptions.signInAddresses)
  await app.register(limits, { ...pluginOptions.rateLimits, now })
  await app.register(exportPlaces, { ...pluginOptions.exports, ...overrides.exports })
  await app.register(imports, pluginOptions.imports)
  await app.register(sharedWriters)
  await app.register(accounts, { resources: served })
  await app.register(accountPages, pluginOptions.accountPages)
  await app.register(credentials, { ...pluginOptions.credentials, provider })
  await app.register(events, {
    ...pluginOptions.events,
    resource: findServed('events'),
    resources: served.filter(isRecorded),
    representations,
  })
  await app.register(docs, {
    ...pluginOptions.docs,
    versions: all,
    // The access to an event is that to its resource.
    definitions: allDefinitions.filter(({ name }) => name !== 'events'),
    tags: [...served, batchesTag, tokensTag, ...(app.mail ? [resetsTag, verificationsTag] : []), ...routes],
    getWebhooks: (representation) =>
      describeWebhooks(findServed('events'), served.filter(isRecorded), representation),
  })
  const toolNames = [...definitions.map(({ name }) => name), 'events']
  await app.register(mcp, {
    ...pluginOptions.mcp,
    resources: served.filter(({ name }) => toolNames.includes(name)),
  })
  await app.register(webhooks, {
    ...pluginOptions.webhooks,
    resources: served.filter(isRecorded),
    listServed: () => listServed(all),
  })
  const { leaseMs } = overrides
  const ownParts = { ...own, ...overrides.own }
  await app.register(jobs, { jobs: ownParts.jobs, now, leaseMs })
  await app.register(consumers, {
    consumers: ownParts.consumers,
    version: Math.max(...numbers),
    leaseMs,
  })
  await app.register(health)
  await app.register(metrics, pluginOptions.metrics)

  app.decorate('ownRoutes', [])
  for (const version of all) {
    const { representation } = version
    await app.register(
      async (scope) => {
        await scope.register(compression, pluginOptions.compression)
        await scope.register(versionScope, { version, publicUrl: config.PUBLIC_URL })
        await scope.register(contentType)
        await scope.register(auth)
        await scope.register(countRequests)
        await scope.register(authorize)
        await scope.register(writeRoutes)
        await scope.register(collections, { ...options, representation, isBatched, resources: served })
        for (const resource of allResources) await scope.register(resource)
        await scope.register(batches, { ...pluginOptions.batches, version: representation.version })
        await scope.register(tokenRoutes, { representation })
        await scope.register(resetRoutes, { representation })
        await scope.register(verificationRoutes, { representation })
        for (const each of routes) await scope.register(createOwnRoutes(each, served), { representation })
        app.answerOtherMethods(scope)
      },
      { prefix: `/api/v${representation.version}` },
    )
  }
  app.answerOtherMethods(app)
  return app
}
