/** Every setting of the service, one property each: what is checked, documented and typed comes from here. */
import { type Static, type StringOptions, Type } from '@sinclair/typebox'
import type { FormatName } from './formats.ts'

/** A string in one of the formats of `formats.ts`, or free. A `secret` is never echoed. */
interface Text extends StringOptions {
  format?: FormatName
  secret?: boolean
  /** The default in production, where it is not `default`. */
  production?: string
}

const text = (description: string, options: Text = {}) => Type.String({ description, ...options })
const optional = (description: string, options: Text = {}) => Type.Optional(text(description, options))
const list = (description: string, options: Text = {}) =>
  Type.Array(Type.String(options), { description, default: [], secret: options.secret ?? false })
const flag = (description: string) => Type.Boolean({ description, default: false })
const number = (description: string, value: number, minimum: number, maximum: number, production = value) =>
  Type.Integer({ description, default: value, minimum, maximum, production })
const limit = (description: string, value: number) => number(description, value, 1, 1_000_000_000)
const oneOf = <const T extends string>(description: string, value: T, values: readonly T[]) =>
  Type.Unsafe<T>(Type.String({ description, default: value, enum: values }))

export const Settings = Type.Object({
  NODE_ENV: oneOf('`production` makes the rules strict.', 'development', [
    'development',
    'test',
    'production',
  ]),
  PORT: number('The port to listen on; 0 takes a free one.', 3000, 0, 65_535),
  HOST: text('The address to listen on.', { format: 'host', default: '127.0.0.1', production: '0.0.0.0' }),
  PUBLIC_URL: optional('Where clients see the service; makes `Location` and `Link` absolute.', {
    format: 'base-url',
  }),
  LOG_LEVEL: oneOf('How much is logged.', 'info', [
    'fatal',
    'error',
    'warn',
    'info',
    'debug',
    'trace',
    'silent',
  ]),

  DATABASE_URL: optional('The PostgreSQL to use; without it the data stands in `DATA_DIR`.', {
    format: 'postgres-url',
    secret: true,
  }),
  DATABASE_REPLICA_URLS: list('Comma-separated replicas of it that take reads.', {
    format: 'postgres-url',
    secret: true,
  }),
  DATA_DIR: text('The folder of the embedded database and of what is made once.', {
    default: './data',
    minLength: 1,
  }),
  POOL_SIZE: number('Connections to each database server.', 10, 1, 1_000),
  REPLICA_LAG: number(
    "Seconds for which a user's reads follow a write to the primary; a replica that is further behind takes no reads.",
    5,
    0,
    3_600,
  ),
  REDIS_URL: optional(
    'One store for all processes: rate limits, and who has written of late; without it, memory.',
    {
      format: 'redis-url',
      secret: true,
    },
  ),

  APP_SECRET: optional(
    'Signs cursors, derives keys; the same on every replica. Required in production, else made once and kept in `DATA_DIR`.',
    { secret: true, minLength: 32, maxLength: 1_024 },
  ),
  ADMIN_EMAIL: text('The first admin, made on an empty database.', {
    format: 'email',
    maxLength: 254,
    default: 'admin@example.com',
  }),
  ADMIN_PASSWORD: optional("The first admin's password.", { secret: true, minLength: 12, maxLength: 128 }),
  ADMIN_API_KEY: optional('While set, a key of that admin that may do everything.', {
    secret: true,
    format: 'header',
    minLength: 32,
    maxLength: 256,
  }),
  JWT_PRIVATE_KEY: optional(
    'Ed25519 keys that sign access tokens, as PEM or JWK; the first signs, all verify. Without it, derived from `APP_SECRET`.',
    { secret: true },
  ),
  JWT_ISSUER: text('`iss` of access tokens.', { default: 'resource-api', minLength: 1 }),
  JWT_AUDIENCE: text('`aud` of access tokens.', { default: 'resource-api', minLength: 1 }),
  ACCESS_TOKEN_TTL: number('Seconds for which an access token holds.', 900, 1, 86_400),
  AUTH_JWKS_URL: optional(
    'The keys of an external identity provider whose tokens are accepted; in production by https.',
    {
      format: 'http-url',
    },
  ),
  AUTH_ISSUER: optional('`iss` of its tokens.', { minLength: 1 }),
  AUTH_AUDIENCE: optional('`aud` of its tokens.', { minLength: 1 }),
  ALLOW_SIGNUP: flag('Whether `POST /users` needs no credentials.'),
  PASSWORD_HASHES: number(
    "Passwords hashed at once; each takes 19 MiB and one of libuv's threads (`UV_THREADPOOL_SIZE`, 4 if unset).",
    2,
    1,
    64,
  ),

  DEFAULT_API_VERSION: number('The version that serves a request which names none.', 1, 1, 2),
  REQUIRE_IF_MATCH: flag('Whether PUT, PATCH and DELETE without `If-Match` are refused (428).'),
  HIDE_FORBIDDEN: flag('Whether what the caller may not see is 404 and not 403.'),
  CORS_ORIGINS: list('Comma-separated origins whose pages may call the service; none if empty.', {
    format: 'origin',
  }),

  RATE_LIMIT: limit('Requests per window and user.', 600),
  RATE_LIMIT_WINDOW: number('Seconds of that window.', 60, 1, 3_600),
  RATE_LIMIT_BURST: limit('Requests per second and user.', 50),
  USER_CONCURRENCY: limit('Concurrent requests per user and process.', 20),
  RATE_LIMIT_ANONYMOUS: limit('Requests without credentials per minute and address.', 60),
  RATE_LIMIT_TOKENS: limit('Sign-ins per minute and address.', 10),
  RATE_LIMIT_AUTH_FAILURES: limit('Failed authentications per minute and address.', 20),
  LOGIN_FAILURES: limit('Failed sign-ins per 15 minutes, account and address.', 5),
  BODY_LIMIT: number("The most bytes of a request's body.", 1_048_576, 1_024, 104_857_600),
  MAX_CONNECTIONS: number('The most sockets at once.', 10_000, 1, 1_000_000),

  TLS_KEY: optional('The private key of HTTPS, as PEM or the path of a file.', { secret: true }),
  TLS_CERT: optional('Its certificate with the chain, as PEM or the path of a file.'),
  TRUST_PROXY: optional(
    'The proxies in front, whose `X-Forwarded-*` are believed; in production, plain HTTP is then refused.',
    {
      format: 'trusted-proxies',
    },
  ),
  INSECURE_HTTP: flag(
    'Whether production may speak plain HTTP without a proxy (for a trial, which may use the secrets of `compose.yaml`).',
  ),
  SHUTDOWN_DELAY: number('Milliseconds between `readyz` 503 and the end of listening.', 0, 0, 600_000, 5_000),
  METRICS_PORT: Type.Optional(
    Type.Integer({
      description: 'A port of its own for `/metrics`, on `HOST`, for all who reach it.',
      minimum: 0,
      maximum: 65_535,
    }),
  ),
  METRICS_TOKEN: optional('The Bearer token that opens `/metrics` on the main port.', {
    secret: true,
    format: 'header',
    minLength: 16,
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional('Where traces are sent; turns tracing on.', { format: 'http-url' }),
})

/** The settings as the service uses them: checked, typed, immutable. */
export type Config = Readonly<Static<typeof Settings>>

export type SettingName = keyof typeof Settings.properties
