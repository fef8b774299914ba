/** The settings of the product, one property each: the source of their validation, documentation and types. */
import { identity } from '@resource-api/database'
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { flag, limit, list, number, oneOf, optional, text } from './setting-types.ts'

export const productSettings = {
  NODE_ENV: oneOf('The environment. `production` requires `APP_SECRET`, and TLS or a proxy.', 'development', [
    'development',
    'test',
    'production',
  ]),
  PORT: number('The port that the server listens on; 0 chooses a free port.', 3000, 0, 65_535),
  HOST: text('The address that the server listens on.', {
    format: 'host',
    default: '127.0.0.1',
    production: '0.0.0.0',
  }),
  WORKERS: number(
    'The number of processes that serve the port together, at most one for each processor. More than 1 needs `DATABASE_URL`. What is per process, such as `POOL_SIZE`, is for each of them.',
    1,
    1,
    256,
  ),
  PUBLIC_URL: optional(
    'The public URL of the service, which the OpenAPI documents name. If set, `Location` and `Link` have absolute URLs.',
    { format: 'base-url' },
  ),
  LOG_LEVEL: oneOf('The lowest severity of log lines.', 'info', [
    'fatal',
    'error',
    'warn',
    'info',
    'debug',
    'trace',
    'silent',
  ]),
  LOG_SQL: flag(
    'Logs each SQL statement of the server with its duration and the number of its rows, without the values of its parameters. Not in production.',
  ),

  DATABASE_URL: optional(
    'The URL of the PostgreSQL database. If not set, an embedded database in `DATA_DIR` is used.',
    { format: 'postgres-url', secret: true },
  ),
  DATABASE_SCHEMA: text(
    'The schema of the tables, which is created if it does not exist. Services with different schemas share a database, and know nothing of each other. With `public`, connections use the search path of their role.',
    { format: 'schema-name', default: 'public' },
  ),
  DATABASE_REPLICA_URLS: list('The URLs of read replicas of `DATABASE_URL`.', {
    format: 'postgres-url',
    secret: true,
  }),
  MIGRATE: Type.Boolean({
    description: `Whether the start applies pending migrations. If \`false\`, it only checks that there are none; \`${identity.program} migrate\` applies them.`,
    default: true,
  }),
  MIGRATION_TIMEOUT: number(
    'The time that a migration waits for locks: of a table that a transaction uses, and of another process that migrates; in milliseconds.',
    600_000,
    0,
    86_400_000,
  ),
  DATA_DIR: text(
    'The directory of the embedded database, of generated secrets, and of the bodies of large imports.',
    {
      default: './data',
      minLength: 1,
    },
  ),
  POOL_SIZE: number('The number of connections to each database server.', 10, 1, 1_000),
  REPLICA_LAG: number(
    "For this many seconds after a write, a user's reads go to the primary. A replica that lags further behind gets no reads.",
    5,
    0,
    3_600,
  ),
  REDIS_URL: optional(
    'The URL of a Redis server, in which all processes count rate limits and record recent writes. If not set, each process uses its own memory.',
    { format: 'redis-url', secret: true },
  ),

  APP_SECRET: optional(
    'The secret from which all keys are derived; the same on every server. Required in production; otherwise generated in `DATA_DIR` at the first start.',
    { secret: true, minLength: 32, maxLength: 1_024 },
  ),
  APP_SECRET_PREVIOUS: optional(
    'The former `APP_SECRET`, which decrypts the secrets of webhook endpoints until they are encrypted with the new one, and the tokens of mails that wait.',
    { secret: true, minLength: 32, maxLength: 1_024 },
  ),
  ADMIN_EMAIL: text('The email address of the first admin, who is created if the database has no users.', {
    format: 'email',
    maxLength: 254,
    default: 'admin@example.com',
  }),
  ADMIN_PASSWORD: optional('The password of the first admin.', {
    secret: true,
    minLength: 12,
    maxLength: 128,
  }),
  ADMIN_API_KEY: optional('An API key of the admin with `ADMIN_EMAIL`, valid as long as this is set.', {
    secret: true,
    format: 'header',
    minLength: 32,
    maxLength: 256,
  }),
  JWT_PRIVATE_KEY: optional(
    'One or more Ed25519 private keys for access tokens, as PEM or JWK. The first key signs, all keys verify. If not set, the key is derived from `APP_SECRET`.',
    { secret: true },
  ),
  JWT_ISSUER: text('The `iss` claim of access tokens.', { default: identity.issuer, minLength: 1 }),
  JWT_AUDIENCE: text('The `aud` claim of access tokens.', { default: identity.audience, minLength: 1 }),
  ACCESS_TOKEN_TTL: number('The lifetime of access tokens, in seconds.', 900, 1, 86_400),
  AUTH_JWKS_URL: optional(
    'The URL of the JSON Web Key Set of an identity provider whose tokens are accepted; https in production.',
    { format: 'public-url' },
  ),
  AUTH_ISSUER: optional('The `iss` claim of its tokens.', { minLength: 1 }),
  AUTH_AUDIENCE: optional('The `aud` claim of its tokens.', { minLength: 1 }),
  ALLOW_SIGNUP: flag('Allows `POST /users` without credentials (sign-up).'),
  REQUIRE_VERIFIED_EMAIL: flag(
    'Gives tokens and new API keys only to users whose email address is verified.',
  ),
  PASSWORD_HASHES: number(
    'The number of passwords hashed concurrently. Each takes 19 MiB of memory and one thread of libuv (`UV_THREADPOOL_SIZE`, default 4).',
    2,
    1,
    64,
  ),

  MAIL_URL: optional(
    'The URL of the SMTP server that sends mails, with credentials. If not set, mails are files in `DATA_DIR/mail`; in production there are none.',
    { format: 'smtp-url', secret: true },
  ),
  MAIL_FROM: optional(
    'The sender of mails, such as `Acme <accounts@example.com>`; required with `MAIL_URL`.',
    {
      format: 'mailbox',
    },
  ),
  MAIL_DKIM_DOMAIN: optional('The domain of the DKIM signature of mails.', { format: 'host' }),
  MAIL_DKIM_SELECTOR: optional('The selector of the DKIM key.', { format: 'host' }),
  MAIL_DKIM_KEY: optional('The private key of the DKIM signature: PEM, or the path of a PEM file.', {
    secret: true,
  }),
  APP_URL: optional(
    'The page of your own to which the links in mails lead. If not set, they lead to the pages under `/account` of the service.',
    { format: 'public-url' },
  ),

  DEFAULT_API_VERSION: number('The API version of requests that do not specify one.', 1, 1, 2),
  REQUIRE_IF_MATCH: flag('Rejects PUT, PATCH and DELETE without `If-Match` with 428.'),
  HIDE_FORBIDDEN: flag('Responds with 404 instead of 403 if the caller may not access a resource.'),
  COMPRESS: flag(
    'Compresses API responses of 1 KiB or more with Brotli or gzip. Leave it to the proxy if there is one.',
  ),
  CORS_ORIGINS: list('The origins whose web pages may call the API (CORS); `*` for all.', {
    format: 'origin',
  }),

  EVENTS: Type.Boolean({
    description: 'Records each change of a resource as an event, and serves the events.',
    default: true,
  }),
  EVENTS_RETENTION_DAYS: number(
    'The number of days after which events are removed; 0 keeps them all.',
    90,
    0,
    36_500,
  ),
  EVENT_STREAMS: limit('The maximum number of event streams per process.', 1_000),
  EXPORT_SECONDS: number('The time for one export, in seconds.', 600, 1, 86_400),
  WEBHOOK_CONCURRENCY: number(
    'The maximum number of concurrent requests to webhook endpoints per process. All endpoints of one owner get at most a quarter of them.',
    50,
    1,
    1_000,
  ),
  WEBHOOK_TIMEOUT: number(
    'The time for one request to a webhook endpoint, in milliseconds.',
    15_000,
    100,
    60_000,
  ),
  WEBHOOK_PRIVATE_ADDRESSES: flag(
    'Allows webhook endpoints at private addresses. Their owners can then send requests to hosts in the network of the server.',
  ),

  RATE_LIMIT: limit('The maximum number of requests per user and window.', 600),
  RATE_LIMIT_WINDOW: number('The length of the window of `RATE_LIMIT`, in seconds.', 60, 1, 3_600),
  RATE_LIMIT_BURST: limit('The maximum number of requests per user and second.', 50),
  USER_CONCURRENCY: limit('The maximum number of concurrent requests per user and process.', 20),
  RATE_LIMIT_ANONYMOUS: limit(
    'The maximum number of requests without credentials per IP address and minute.',
    60,
  ),
  RATE_LIMIT_TOKENS: limit('The maximum number of sign-ins per IP address and minute.', 10),
  RATE_LIMIT_AUTH_FAILURES: limit(
    'The maximum number of requests with invalid credentials per IP address and minute.',
    20,
  ),
  LOGIN_FAILURES: limit(
    'The maximum number of failed sign-ins per account and IP address in 15 minutes; ten times as many per account.',
    5,
  ),
  BATCH_OPERATIONS: number('The maximum number of operations in a batch.', 100, 1, 10_000),
  IMPORT_ROWS: number(
    'The maximum number of rows of an import; 10,000 on the embedded database, if that is less.',
    100_000,
    1,
    10_000_000,
  ),
  IMPORT_LIMIT: number('The maximum size of an import, in bytes.', 104_857_600, 1_024, 10_737_418_240),
  IMPORT_SECONDS: number(
    'The time in which the body of an import has to arrive, in seconds.',
    600,
    1,
    86_400,
  ),
  BODY_LIMIT: number('The maximum size of a request body, in bytes.', 1_048_576, 1_024, 104_857_600),
  MAX_CONNECTIONS: number('The maximum number of open client connections.', 10_000, 1, 1_000_000),

  TLS_KEY: optional('The private key for HTTPS: PEM, or the path of a PEM file.', { secret: true }),
  TLS_CERT: optional('The certificate for HTTPS, with its chain: PEM, or the path of a PEM file.'),
  TRUST_PROXY: optional(
    'The proxies whose `X-Forwarded-*` headers are trusted. In production, requests that reached the proxy over plain HTTP are then rejected.',
    { format: 'trusted-proxies' },
  ),
  INSECURE_HTTP: flag('Allows plain HTTP in production, for a trial on one machine.'),
  SHUTDOWN_DELAY: number(
    'The time between 503 on `/readyz` and the closing of the port, in milliseconds.',
    0,
    0,
    600_000,
    5_000,
  ),
  MCP: Type.Boolean({
    description:
      'Whether `POST /mcp` serves the operations as tools for agents, by the Model Context Protocol.',
    default: false,
  }),
  MCP_READ_ONLY: flag('Leaves out all tools that write.'),
  MCP_EXCLUDE_TOOLS: list(
    'Tools that are left out: names such as `orders_refunds`, or `*` and the end of names, such as `*_delete`.',
  ),

  METRICS_PORT: Type.Optional(
    Type.Integer({
      description: 'The port of `/metrics` without authentication, on `METRICS_HOST`; 0 chooses a free port.',
      minimum: 0,
      maximum: 65_535,
    }),
  ),
  METRICS_HOST: text('The address of `METRICS_PORT`.', { format: 'host', default: '127.0.0.1' }),
  METRICS_TOKEN: optional('The Bearer token for `/metrics` on `PORT`.', {
    secret: true,
    format: 'header',
    minLength: 16,
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    'The URL of an OpenTelemetry collector. If set, traces are sent to it.',
    { format: 'server-url' },
  ),
}

/** The validated settings. A plugin takes those that it names: `Pick<Config, 'POOL_SIZE'>`. */
export type Config = Readonly<Static<TObject<typeof productSettings>>>

/** The settings of an app that runs, with its secret: from the environment or from `DATA_DIR`. */
export type RunConfig = Config & Readonly<{ APP_SECRET: string }>
