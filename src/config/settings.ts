/** The schema of the settings, one property each: the source of their validation, documentation and types. */
import { type Static, type StringOptions, Type } from '@sinclair/typebox'
import type { FormatName } from './formats.ts'

/** A string, in a format of `formats.ts` if one is given. A `secret` is never printed. */
interface TextOptions extends StringOptions {
  format?: FormatName
  secret?: boolean
  /** The default in production, if it differs. */
  production?: string
}

const text = (description: string, options: TextOptions = {}) => Type.String({ description, ...options })
const optional = (description: string, options: TextOptions = {}) => Type.Optional(text(description, options))
const list = (description: string, options: TextOptions = {}) =>
  Type.Array(Type.String(options), { description, default: [], secret: options.secret ?? false })
const flag = (description: string) => Type.Boolean({ description, default: false })
const number = (description: string, value: number, minimum: number, maximum: number, production = value) =>
  Type.Integer({ description, default: value, minimum, maximum, production })
const limit = (description: string, value: number) => number(description, value, 1, 1_000_000_000)
const oneOf = <const T extends string>(description: string, value: T, values: readonly T[]) =>
  Type.Unsafe<T>(Type.String({ description, default: value, enum: values }))

export const Settings = Type.Object({
  NODE_ENV: oneOf('`production` requires secrets and TLS.', 'development', [
    'development',
    'test',
    'production',
  ]),
  PORT: number('The port to listen on; 0 for any free port.', 3000, 0, 65_535),
  HOST: text('The address to listen on.', { format: 'host', default: '127.0.0.1', production: '0.0.0.0' }),
  PUBLIC_URL: optional('The public address of the service; makes `Location` and `Link` absolute.', {
    format: 'base-url',
  }),
  LOG_LEVEL: oneOf('The lowest level that is logged.', 'info', [
    'fatal',
    'error',
    'warn',
    'info',
    'debug',
    'trace',
    'silent',
  ]),

  DATABASE_URL: optional('The PostgreSQL database; if not set, an embedded database in `DATA_DIR`.', {
    format: 'postgres-url',
    secret: true,
  }),
  DATABASE_REPLICA_URLS: list('Comma-separated read replicas of that database.', {
    format: 'postgres-url',
    secret: true,
  }),
  DATA_DIR: text('The folder of the embedded database and of generated secrets.', {
    default: './data',
    minLength: 1,
  }),
  POOL_SIZE: number('Connections to each database server.', 10, 1, 1_000),
  REPLICA_LAG: number(
    "Seconds after a write for which a user's reads go to the primary; a replica that lags further behind gets no reads.",
    5,
    0,
    3_600,
  ),
  REDIS_URL: optional(
    'A store that all processes share, for rate limits and recent writers; if not set, each process uses its memory.',
    {
      format: 'redis-url',
      secret: true,
    },
  ),

  APP_SECRET: optional(
    'Signs cursors and derives keys; the same for every server. Required in production; otherwise generated once, in `DATA_DIR`.',
    { secret: true, minLength: 32, maxLength: 1_024 },
  ),
  ADMIN_EMAIL: text('The first admin, created in an empty database.', {
    format: 'email',
    maxLength: 254,
    default: 'admin@example.com',
  }),
  ADMIN_PASSWORD: optional("The first admin's password.", { secret: true, minLength: 12, maxLength: 128 }),
  ADMIN_API_KEY: optional('An API key of that admin with every permission, valid while this is set.', {
    secret: true,
    format: 'header',
    minLength: 32,
    maxLength: 256,
  }),
  JWT_PRIVATE_KEY: optional(
    'Ed25519 keys for access tokens, as PEM or JWK; the first one signs, all verify. If not set, derived from `APP_SECRET`.',
    { secret: true },
  ),
  JWT_ISSUER: text('`iss` of access tokens.', { default: 'resource-api', minLength: 1 }),
  JWT_AUDIENCE: text('`aud` of access tokens.', { default: 'resource-api', minLength: 1 }),
  ACCESS_TOKEN_TTL: number('Seconds for which an access token is valid.', 900, 1, 86_400),
  AUTH_JWKS_URL: optional(
    'The keys of an external identity provider whose tokens are accepted; must be https in production.',
    {
      format: 'http-url',
    },
  ),
  AUTH_ISSUER: optional('`iss` of its tokens.', { minLength: 1 }),
  AUTH_AUDIENCE: optional('`aud` of its tokens.', { minLength: 1 }),
  ALLOW_SIGNUP: flag('Whether `POST /users` needs no credentials.'),
  PASSWORD_HASHES: number(
    "Passwords hashed concurrently; each takes 19 MiB and one of libuv's threads (`UV_THREADPOOL_SIZE`, default 4).",
    2,
    1,
    64,
  ),

  DEFAULT_API_VERSION: number('The version for requests that name none.', 1, 1, 2),
  REQUIRE_IF_MATCH: flag('Whether PUT, PATCH and DELETE require `If-Match` (else 428).'),
  HIDE_FORBIDDEN: flag('Whether a resource that the caller may not see is 404 instead of 403.'),
  CORS_ORIGINS: list('Comma-separated origins whose pages may call the service.', {
    format: 'origin',
  }),

  RATE_LIMIT: limit('Requests per user and window.', 600),
  RATE_LIMIT_WINDOW: number('Length of that window in seconds.', 60, 1, 3_600),
  RATE_LIMIT_BURST: limit('Requests per user and second.', 50),
  USER_CONCURRENCY: limit('Concurrent requests per user and process.', 20),
  RATE_LIMIT_ANONYMOUS: limit('Requests without credentials per address and minute.', 60),
  RATE_LIMIT_TOKENS: limit('Sign-ins per address and minute.', 10),
  RATE_LIMIT_AUTH_FAILURES: limit('Failed authentications per address and minute.', 20),
  LOGIN_FAILURES: limit('Failed sign-ins per account, address and 15 minutes.', 5),
  BODY_LIMIT: number('The maximum size of a request body, in bytes.', 1_048_576, 1_024, 104_857_600),
  MAX_CONNECTIONS: number('The maximum number of open client connections.', 10_000, 1, 1_000_000),

  TLS_KEY: optional('The private key for HTTPS, as PEM or the path of a file.', { secret: true }),
  TLS_CERT: optional('Its certificate with the chain, as PEM or the path of a file.'),
  TRUST_PROXY: optional(
    'The proxies whose `X-Forwarded-*` headers are trusted; in production, plain HTTP is then refused.',
    {
      format: 'trusted-proxies',
    },
  ),
  INSECURE_HTTP: flag(
    'Allows plain HTTP without a proxy in production (for a trial, which may use the secrets of `compose.yaml`).',
  ),
  SHUTDOWN_DELAY: number('Milliseconds between 503 on `/readyz` and closing the port.', 0, 0, 600_000, 5_000),
  METRICS_PORT: Type.Optional(
    Type.Integer({
      description: 'A separate port for `/metrics`, on `HOST`, without authentication.',
      minimum: 0,
      maximum: 65_535,
    }),
  ),
  METRICS_TOKEN: optional('The Bearer token for `/metrics` on the main port.', {
    secret: true,
    format: 'header',
    minLength: 16,
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional('The collector for traces; enables tracing.', { format: 'http-url' }),
})

/** The validated settings. */
export type Config = Readonly<Static<typeof Settings>>

export type SettingName = keyof typeof Settings.properties
