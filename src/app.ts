/** The table of contents: every plugin in its order, a line each. */
import Fastify, { type FastifyInstance } from 'fastify'
import { type Database, openDatabase } from '../drizzle/client/index.ts'
import { migrate } from '../drizzle/migrate.ts'
import access, { guard } from '../plugins/access/index.ts'
import overload from '../plugins/admission/index.ts'
import auth, { credentials, peekActor } from '../plugins/auth/index.ts'
import passwords, { type Work } from '../plugins/auth/passwords.ts'
import signInAddresses from '../plugins/auth/sign-in-addresses.ts'
import tokens from '../plugins/auth/tokens/index.ts'
import { compileResources } from '../plugins/collection/compile.ts'
import { createCollection } from '../plugins/collection/plugin.ts'
import conditional from '../plugins/collection/request/preconditions.ts'
import database from '../plugins/database.ts'
import errors from '../plugins/errors/index.ts'
import content from '../plugins/http/content-type.ts'
import cors from '../plugins/http/cors.ts'
import { frameworkErrors } from '../plugins/http/framework-errors.ts'
import head from '../plugins/http/header-validation.ts'
import transport from '../plugins/http/https-only.ts'
import methods from '../plugins/http/method-not-allowed.ts'
import { createWire } from '../plugins/http/parser-errors.ts'
import remoteAddress from '../plugins/http/remote-address.ts'
import securityHeaders from '../plugins/http/security-headers.ts'
import deadline, { type DeadlineOptions } from '../plugins/http/timeouts.ts'
import untaken from '../plugins/http/unread-responses.ts'
import idempotency from '../plugins/idempotency/index.ts'
import { logging } from '../plugins/observability/logging/index.ts'
import metrics, { counting } from '../plugins/observability/metrics/index.ts'
import tracing, { openTracing } from '../plugins/observability/tracing/index.ts'
import docs, { document } from '../plugins/openapi/index.ts'
import health from '../plugins/operations/health.ts'
import shutdown from '../plugins/operations/shutdown.ts'
import limits, { limited } from '../plugins/rate-limit/index.ts'
import { apiKeysResource } from '../plugins/resources/api-keys.ts'
import { ordersResource } from '../plugins/resources/orders.ts'
import { postsResource } from '../plugins/resources/posts.ts'
import { productsResource } from '../plugins/resources/products.ts'
import { sessionsResource } from '../plugins/resources/sessions.ts'
import { tokens as tokenRoutes, tokensTag } from '../plugins/resources/tokens.ts'
import { userProfilesResource } from '../plugins/resources/user-profiles.ts'
import { usersResource } from '../plugins/resources/users.ts'
import { serializerOptions } from '../plugins/validation/formats.ts'
import { buildSerializer } from '../plugins/validation/serializers.ts'
import versionScope, { createAddressing, type Version, versions } from '../plugins/versioning/index.ts'
import addressing, { checkAddress } from '../plugins/versioning/response-headers.ts'
import { parsePrivateKeys } from './config/private-keys.ts'
import type { Config } from './config.ts'
import { firstAdmin } from './first-admin.ts'
import { behindProxy, createAddressReader, serverOptions } from './http-options.ts'
import { release } from './release.ts'
import { appSecret, deriveKey } from './secrets.ts'

/** The definitions of all resources. */
export const resources = [
  usersResource,
  userProfilesResource,
  postsResource,
  productsResource,
  ordersResource,
]

/** Those that credentials are managed by: always there. */
export const credentialResources = [sessionsResource, apiKeysResource]

/** Requests that may wait beside those that have a connection: a few inside, with all that they need, the rest outside. */
const WAITING = { inside: 118, outside: 882 }

/**
 * No path is longer: Node refuses a head of more (`src/http-options.ts`). Where a parameter was, Fastify would answer
 * without any hook, and so without the headers that hooks add.
 */
const MAX_PARAM_LENGTH = 32_768

/** What a test may put in place of the server's own. */
export interface Parts {
  database?: Database
  versions?: readonly Version[]
  resources?: typeof resources
  /** The time that rate limits and the keys of an identity provider go by, in milliseconds since the epoch. */
  now?: () => number
  /** What passwords are hashed with. */
  passwordWork?: Work
  deadline?: DeadlineOptions
  /** Milliseconds by which the event loop may be late: where the test shares it, the test itself makes it late. */
  late?: number
  /** Where log lines go. */
  logs?: { write(line: string): void }
}

async function open(config: Config): Promise<Database> {
  const { DATABASE_URL: url, POOL_SIZE: poolSize, DATA_DIR: dataDir } = config
  const replicas = {
    replicaUrls: config.DATABASE_REPLICA_URLS,
    replicaLag: config.REPLICA_LAG * 1000,
  }
  const database = await openDatabase({ url, poolSize, dataDir, ...replicas })
  try {
    await migrate(database)
  } catch (error) {
    await database.close()
    throw error
  }
  return database
}

/** The identity provider, where one is named. */
async function providerOf(config: Config, now: () => number) {
  const { AUTH_JWKS_URL: jwksUrl, AUTH_ISSUER: issuer, AUTH_AUDIENCE: audience } = config
  if (jwksUrl === undefined || issuer === undefined || audience === undefined) return undefined
  const { createProvider } = await import('../plugins/auth/tokens/identity-provider.ts')
  return createProvider({ jwksUrl, issuer, audience, now })
}

/** How often whom. */
const limitsOf = (config: Config) => ({
  users: {
    limit: config.RATE_LIMIT,
    life: config.RATE_LIMIT_WINDOW * 1000,
    burst: config.RATE_LIMIT_BURST,
  },
  anonymous: config.RATE_LIMIT_ANONYMOUS,
  tokens: config.RATE_LIMIT_TOKENS,
  authFailures: config.RATE_LIMIT_AUTH_FAILURES,
  redisUrl: config.REDIS_URL,
  userConcurrency: config.USER_CONCURRENCY,
})

/** The whole service, ready to listen: what the server runs and what the tests call. */
export async function buildApp(config: Config, parts: Parts = {}): Promise<FastifyInstance> {
  const opened = parts.database ?? (await open(config))
  const secret = await appSecret(config)
  const connections = opened.kind === 'embedded' ? 1 : config.POOL_SIZE
  const pretty = config.NODE_ENV === 'development' && process.stdout.isTTY
  const all = parts.versions ?? versions
  const served = compileResources([...(parts.resources ?? resources), ...credentialResources])
  const addresses = createAddressing(all, config.DEFAULT_API_VERSION)
  const wire = createWire(addresses)
  const readAddress = createAddressReader(config)
  const now = parts.now ?? Date.now
  const provider = await providerOf(config, now)
  await firstAdmin(config, opened)

  const app = Fastify({
    ...serverOptions(config),
    ...(await logging({
      level: config.LOG_LEVEL,
      pretty,
      ...(parts.logs ? { stream: parts.logs } : {}),
    })),
    rewriteUrl: (raw) => addresses.rewriteUrl(raw),
    clientErrorHandler: wire.clientErrorHandler,
    frameworkErrors,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    serializerOpts: serializerOptions,
    schemaController: { compilersFactory: { buildSerializer } },
  })
  app.decorate('addressing', addresses)

  const tracer = await openTracing({
    endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT,
    release,
    log: app.log,
  })

  await app.register(remoteAddress)
  await app.register(errors, { getErrorEnvelope: (request) => addresses.of(request).representation.error })
  await app.register(tracing, { tracer })
  await app.register(counting, {
    wanted: config.METRICS_PORT !== undefined || config.METRICS_TOKEN !== undefined,
    release,
  })
  await app.register(securityHeaders)
  await app.register(addressing)
  await app.register(transport, { refusePlain: behindProxy(config) })
  await app.register(cors, { origins: config.CORS_ORIGINS })
  await app.register(wire.plugin)
  await app.register(head)
  await app.register(conditional)
  await app.register(methods)
  await app.register(checkAddress)
  await app.register(deadline, parts.deadline ?? {})
  await app.register(untaken)
  await app.register(database, { database: tracer?.watch(opened) ?? opened })
  await app.register(idempotency, { secret: deriveKey(secret, 'idempotency') })
  await app.register(shutdown, { delay: config.SHUTDOWN_DELAY })
  await app.register(overload, {
    inside: WAITING.inside + connections,
    waiting: WAITING.outside,
    late: parts.late,
    countRefused: (request) => app.limits.countRefused(peekActor(app, request.headers), readAddress(request)),
  })
  await app.register(access, { hideForbidden: config.HIDE_FORBIDDEN, allowSignup: config.ALLOW_SIGNUP })
  await app.register(passwords, { atOnce: config.PASSWORD_HASHES, work: parts.passwordWork })
  await app.register(tokens, {
    privateKeys: config.JWT_PRIVATE_KEY === undefined ? [] : parsePrivateKeys(config.JWT_PRIVATE_KEY),
    seed: deriveKey(secret, 'access tokens'),
    refreshKey: deriveKey(secret, 'refresh tokens'),
    issuer: config.JWT_ISSUER,
    audience: config.JWT_AUDIENCE,
    ttl: config.ACCESS_TOKEN_TTL,
  })
  await app.register(signInAddresses, { secret: deriveKey(secret, 'sign-in addresses') })
  await app.register(limits, {
    ...limitsOf(config),
    attempts: { failures: config.LOGIN_FAILURES, secret: deriveKey(secret, 'rate limits') },
    getUserFlag: opened.replicas?.recentWriters.getFlag,
    onStoreChange: (state) => opened.replicas?.recentWriters.pause(state === 'own'),
    now,
  })
  opened.replicas?.recentWriters.shareBy(app.limits.setFlag)
  await app.register(credentials, {
    adminKey: config.ADMIN_API_KEY,
    adminEmail: config.ADMIN_EMAIL,
    provider,
  })
  await app.register(docs, { versions: all, publicUrl: config.PUBLIC_URL })
  await app.register(health)
  await app.register(metrics, {
    port: config.METRICS_PORT,
    host: config.HOST,
    token: config.METRICS_TOKEN,
  })

  const options = {
    cursorKey: deriveKey(secret, 'cursors'),
    publicUrl: config.PUBLIC_URL,
    requireIfMatch: config.REQUIRE_IF_MATCH,
  }
  for (const version of all) {
    const { representation } = version
    await app.register(
      async (scope) => {
        await scope.register(versionScope, { version, publicUrl: config.PUBLIC_URL })
        await scope.register(content)
        await scope.register(auth)
        await scope.register(limited)
        await scope.register(guard)
        await scope.register(document, {
          version,
          release,
          publicUrl: config.PUBLIC_URL,
          tags: [...served, tokensTag],
          // In production a build is run that was tested, and most who start it never ask.
          early: config.NODE_ENV !== 'production',
        })
        for (const resource of served)
          await scope.register(createCollection(resource), { ...options, representation })
        await scope.register(tokenRoutes, { representation })
        app.answerOtherMethods(scope)
      },
      { prefix: `/api/v${representation.version}` },
    )
  }
  app.answerOtherMethods(app)
  return app
}
