/** Maps the settings to the options of each plugin; `app.ts` is left with the plugins and their order. */
import { join } from 'node:path'
import { DEFAULT_SCHEMA } from '../drizzle/client/schema.ts'
import { identity } from '../lib/identity.ts'
import { type Mailbox, parseMailbox } from '../lib/mailbox.ts'
import type { Provider } from '../plugins/auth/tokens/identity-provider.ts'
import { createAddressPolicy } from '../plugins/webhooks/delivery/addresses.ts'
import { createSecretBox } from '../plugins/webhooks/delivery/secret-box.ts'
import { parsePrivateKeys, readPem } from './config/keys.ts'
import { type Config, listOwnSecrets } from './config.ts'
import { isBehindProxy } from './http-options.ts'
import { release } from './release.ts'
import { deriveKey } from './secrets.ts'

/** Requests admitted beyond one for each database connection: `inside` are prepared, `outside` wait unprepared. */
const ADMISSION_QUEUE = { inside: 118, outside: 882 }

/**
 * Node.js refuses a header section longer than this (`src/http-options.ts`), so no path parameter is longer. Fastify's
 * own limit would answer without running any hook, and so without the headers that hooks add.
 */
const MAX_PARAM_LENGTH = 32_768

export const routerOptions = { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH }

export function getDatabaseOptions(config: Config) {
  return {
    url: config.DATABASE_URL,
    schema: config.DATABASE_SCHEMA,
    poolSize: config.POOL_SIZE,
    dataDir: config.DATA_DIR,
    replicaUrls: config.DATABASE_REPLICA_URLS,
    replicaLag: config.REPLICA_LAG * 1000,
  }
}

export function getLoggingOptions(config: Config) {
  const pretty = config.NODE_ENV === 'development' && process.stdout.isTTY
  return { level: config.LOG_LEVEL, pretty, ownSecrets: listOwnSecrets() }
}

/** The client of the configured identity provider; undefined if none is configured, and then nothing is loaded. */
export async function createIdentityProvider(
  config: Config,
  now: () => number,
): Promise<Provider | undefined> {
  const { AUTH_JWKS_URL: jwksUrl, AUTH_ISSUER: issuer, AUTH_AUDIENCE: audience } = config
  if (jwksUrl === undefined || issuer === undefined || audience === undefined) return undefined
  const { createProvider } = await import('../plugins/auth/tokens/identity-provider.ts')
  return createProvider({ jwksUrl, issuer, audience, now })
}

function getRateLimitOptions(config: Config, secret: string) {
  return {
    users: {
      limit: config.RATE_LIMIT,
      durationMs: config.RATE_LIMIT_WINDOW * 1000,
      burst: config.RATE_LIMIT_BURST,
    },
    anonymous: config.RATE_LIMIT_ANONYMOUS,
    tokens: config.RATE_LIMIT_TOKENS,
    authFailures: config.RATE_LIMIT_AUTH_FAILURES,
    redisUrl: config.REDIS_URL,
    redisNamespace: config.DATABASE_SCHEMA === DEFAULT_SCHEMA ? undefined : config.DATABASE_SCHEMA,
    userConcurrency: config.USER_CONCURRENCY,
    attempts: { failures: config.LOGIN_FAILURES, secret: deriveKey(secret, 'rate limits') },
  }
}

function getTokenOptions(config: Config, secret: string) {
  return {
    privateKeys: config.JWT_PRIVATE_KEY === undefined ? [] : parsePrivateKeys(config.JWT_PRIVATE_KEY),
    seed: deriveKey(secret, 'access tokens'),
    refreshKey: deriveKey(secret, 'refresh tokens'),
    issuer: config.JWT_ISSUER,
    audience: config.JWT_AUDIENCE,
    ttl: config.ACCESS_TOKEN_TTL,
    requiresVerifiedEmail: config.REQUIRE_VERIFIED_EMAIL,
  }
}

/** Returns the options of webhooks and of their resources. */
export function getWebhookOptions(config: Config, secret: string) {
  const { NODE_ENV, APP_SECRET_PREVIOUS: previous } = config
  const deriveBoxKey = (from: string) => deriveKey(from, 'webhook secrets')
  return {
    policy: createAddressPolicy({
      allowsPrivate: config.WEBHOOK_PRIVATE_ADDRESSES,
      allowsLoopback: NODE_ENV !== 'production',
    }),
    requiresHttps: NODE_ENV === 'production',
    hideForbidden: config.HIDE_FORBIDDEN,
    secretBox: createSecretBox({
      current: deriveBoxKey(secret),
      previous: previous === undefined ? [] : [deriveBoxKey(previous)],
    }),
    defaultVersion: config.DEFAULT_API_VERSION,
    concurrency: config.WEBHOOK_CONCURRENCY,
    timeoutMs: config.WEBHOOK_TIMEOUT,
    userAgent: `${identity.name}/${release}`,
  }
}

function getDkim({ MAIL_DKIM_DOMAIN, MAIL_DKIM_SELECTOR, MAIL_DKIM_KEY }: Config) {
  if (MAIL_DKIM_DOMAIN === undefined || MAIL_DKIM_SELECTOR === undefined || MAIL_DKIM_KEY === undefined)
    return undefined
  return {
    domainName: MAIL_DKIM_DOMAIN,
    keySelector: MAIL_DKIM_SELECTOR,
    privateKey: readPem(MAIL_DKIM_KEY),
  }
}

/** Returns whether mails are sent, or written as files. */
export const isMailConfigured = ({ MAIL_URL, NODE_ENV }: Config): boolean =>
  MAIL_URL !== undefined || NODE_ENV !== 'production'

/** Returns where a forgotten password is reset, relative to the documentation page; undefined without mail. */
function getResetUrl(config: Config): string | undefined {
  if (!isMailConfigured(config)) return undefined
  if (config.APP_URL === undefined) return '../account/reset'
  const url = new URL(config.APP_URL)
  url.searchParams.append('purpose', 'reset')
  return url.href
}

/** Returns the sender of mails. Those that are files have one too. */
export const getSender = ({ MAIL_FROM: from = '' }: Config): Mailbox =>
  parseMailbox(from) ?? { name: identity.title, address: 'accounts@localhost' }

/** Returns the options of mails. */
export function getMailOptions(config: Config, secret: string) {
  const { APP_SECRET_PREVIOUS: previous } = config
  const deriveBoxKey = (from: string) => deriveKey(from, 'mail tokens')
  return {
    isConfigured: isMailConfigured(config),
    url: config.MAIL_URL,
    from: getSender(config),
    folder: join(config.DATA_DIR, 'mail'),
    dkim: getDkim(config),
    appUrl: config.APP_URL,
    publicUrl: config.PUBLIC_URL,
    product: identity.title,
    secretBox: createSecretBox({
      current: deriveBoxKey(secret),
      previous: previous === undefined ? [] : [deriveBoxKey(previous)],
    }),
  }
}

/**
 * Returns the options of the plugins that settings configure, by plugin.
 * @param secret the application secret, from which each plugin gets a key of its own
 * @param connections to the primary database
 */
export function getPluginOptions(config: Config, secret: string, connections: number) {
  return {
    requestMetrics: {
      isEnabled: config.METRICS_PORT !== undefined || config.METRICS_TOKEN !== undefined,
      release,
    },
    transport: { refusePlain: isBehindProxy(config) },
    cors: { origins: config.CORS_ORIGINS },
    compression: { isEnabled: config.COMPRESS },
    idempotency: { secret: deriveKey(secret, 'idempotency') },
    shutdown: { delay: config.SHUTDOWN_DELAY },
    admission: { maxActive: ADMISSION_QUEUE.inside + connections, maxWaiting: ADMISSION_QUEUE.outside },
    access: { hideForbidden: config.HIDE_FORBIDDEN, allowSignup: config.ALLOW_SIGNUP },
    passwords: { concurrency: config.PASSWORD_HASHES },
    tokens: getTokenOptions(config, secret),
    signInAddresses: { secret: deriveKey(secret, 'sign-in addresses') },
    rateLimits: getRateLimitOptions(config, secret),
    credentials: { adminKey: config.ADMIN_API_KEY, adminEmail: config.ADMIN_EMAIL },
    exports: { maxMs: config.EXPORT_SECONDS * 1000 },
    events: {
      cursorKey: deriveKey(secret, 'cursors'),
      maxStreams: config.EVENT_STREAMS,
      retentionDays: config.EVENTS_RETENTION_DAYS,
    },
    metrics: { port: config.METRICS_PORT, host: config.METRICS_HOST, token: config.METRICS_TOKEN },
    webhooks: getWebhookOptions(config, secret),
    mail: getMailOptions(config, secret),
    // A team has pages of its own.
    accountPages: { isEnabled: config.APP_URL === undefined, publicUrl: config.PUBLIC_URL },
    mcp: { isEnabled: config.MCP, release, publicUrl: config.PUBLIC_URL, issuer: config.AUTH_ISSUER },
    docs: {
      release,
      publicUrl: config.PUBLIC_URL,
      resetUrl: getResetUrl(config),
      hasAgents: config.MCP,
      // Only a developer changes schemas. Few servers, and few tests, are asked for the document: it is built on request.
      early: config.NODE_ENV === 'development',
    },
    collections: {
      cursorKey: deriveKey(secret, 'cursors'),
      publicUrl: config.PUBLIC_URL,
      requireIfMatch: config.REQUIRE_IF_MATCH,
    },
    batches: { maxOperations: config.BATCH_OPERATIONS },
    imports: {
      maxRows: config.IMPORT_ROWS,
      maxBytes: config.IMPORT_LIMIT,
      maxRowBytes: config.BODY_LIMIT,
      receiveMs: config.IMPORT_SECONDS * 1000,
      folder: join(config.DATA_DIR, 'imports'),
      connections,
    },
  }
}
