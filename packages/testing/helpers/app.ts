/** The app that the server runs, with a test database, and HTTP clients for it. */
import { randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { hash } from '@node-rs/argon2'
import type { FastifyInstance } from 'fastify'
import { v7 as uuid } from 'uuid'
import { type AppOverrides, buildApp } from '../../../src/app.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../accounts/src/auth/key-format.ts'
import { argon2, type PasswordHasher } from '../../accounts/src/auth/passwords.ts'
import type { Role } from '../../database/src/application.ts'
import type { Database } from '../../database/src/client/index.ts'
import { roles } from '../../database/src/roles.ts'
import { readConfig } from '../../http/src/config/read-config.ts'
import { failures } from '../../http/src/schemas/error.ts'
import type { ResourceDefinition } from '../../resources/src/collection/definition.ts'
import type { ResourcePlugin } from '../../resources/src/collection/plugin.ts'
import { type Owner, testDatabase, testFolder } from './database.ts'
import { WITHOUT_LIMITS } from './process.ts'
import { serveAll } from './serve.ts'

export const APP_SECRET = 'test-secret-test-secret-test-secret-test'
export const ADMIN_KEY = 'test-admin-key-test-admin-key-test-admin-key'
/** Requests of a test are not refused because the machine is busy. */
const MAX_WAIT_MS = 60_000
/** A valid id of no row. */
export const UNKNOWN_ID = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

// biome-ignore lint/suspicious/noExplicitAny: the type of a reply's body is what a test checks
export type Json = any

export interface Reply {
  status: number
  headers: Headers
  /** The parsed JSON; undefined for any other body. */
  body: Json
  text: string
}

export interface CallOptions {
  headers?: Record<string, string>
  /** Sent as JSON, unless it is a string. */
  body?: unknown
}

export interface Client {
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  get(path: string, headers?: Record<string, string>): Promise<Reply>
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  put(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  patch(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  delete(path: string, headers?: Record<string, string>): Promise<Reply>
}

const DECODERS: Record<string, (bytes: Buffer) => Buffer> = { gzip: gunzipSync, br: brotliDecompressSync }

async function readReply(reply: IncomingMessage): Promise<Reply> {
  const chunks: Buffer[] = []
  for await (const chunk of reply) chunks.push(chunk)
  const headers = new Headers()
  const { rawHeaders, statusCode: status = 0 } = reply
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '')
  const bytes = Buffer.concat(chunks)
  const decode = bytes.length > 0 && DECODERS[headers.get('content-encoding') ?? '']
  const text = (decode ? decode(bytes) : bytes).toString()
  const isJson = /[/+]json/.test(headers.get('content-type') ?? '') && text !== ''
  return { status, headers, text, body: isJson ? JSON.parse(text) : undefined }
}

/** Connections are kept for the next request: `fetch` takes four times as long, and opens one for each after a HEAD. */
const agent = new Agent({ keepAlive: true })

/** @param base the address, or a function that chooses one for each request */
export function createClient(base: string | (() => string), always: Record<string, string>): Client {
  const call = async (
    method: string,
    path: string,
    { headers = {}, body }: CallOptions = {},
  ): Promise<Reply> => {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
    const sent = request(new URL(`${typeof base === 'string' ? base : base()}${path}`), {
      method,
      agent,
      headers: {
        ...{ accept: '*/*', 'user-agent': 'node' },
        ...always,
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
        ...(text !== undefined && { 'content-length': Buffer.byteLength(text) }),
      },
    })
    // An early response may end the connection before all of the body is sent.
    sent.on('error', () => undefined)
    sent.end(text)
    // The event has one argument.
    const [reply] = (await once(sent, 'response')) as [IncomingMessage]
    return readReply(reply)
  }
  return {
    call,
    get: (path, headers = {}) => call('GET', path, { headers }),
    post: (path, body, headers = {}) => call('POST', path, { headers, body }),
    put: (path, body, headers = {}) => call('PUT', path, { headers, body }),
    patch: (path, body, headers = {}) => call('PATCH', path, { headers, body }),
    delete: (path, headers = {}) => call('DELETE', path, { headers }),
  }
}

/** What a test replaces in the app: collections have all routes that their access names. */
export type TestOverrides = Omit<AppOverrides, 'resources'> & {
  resources?: readonly (ResourcePlugin | ResourceDefinition)[]
}

export interface Person {
  id: string
  key: string
  /** Authenticated with the key. */
  client: Client
  /** Authenticated with an access token of the session. */
  bearer: Client
  token: string
  sessionId: string
}

export interface TestApp {
  app: FastifyInstance
  database: Database
  /** The address of the app: `http://127.0.0.1:port`. */
  base: string
  port: number
  /** Authenticated with the bootstrap admin's key. */
  admin: Client
  adminId: string
  /** Without credentials. */
  anybody: Client
  /** Creates a user of a role with an API key and a session. */
  person(role: Role, scopes?: readonly string[]): Promise<Person>
  peopleOfAllRoles(): Promise<Record<Role, Person>>
}

/** Inserts a user and an API key, as sign-up and `POST /api-keys` create them. */
export async function insertUser(database: Database, role: Role, scopes: readonly string[]) {
  const id = uuid()
  const key = makeKey()
  const name = `${role} ${randomBytes(4).toString('hex')}`
  await database.run('insert into users (id, name, email, role, search) values ($1, $2, $3, $4, $2)', [
    id,
    name,
    `${name.replace(' ', '.')}@example.com`,
    role,
  ])
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'test', $3, $4, $5, now() + interval '1 day')`,
    [uuid(), id, getKeyPrefix(key), hashKey(key), JSON.stringify(scopes)],
  )
  return { id, key }
}

/** Returns the type, the message, the fields and the stack of an error as it is logged, and those of its causes. */
function describeError({ type, message, stack = '', cause, ...fields }: Json): string {
  const frames = stack.split('\n').filter((line: string) => /^\s+at /.test(line))
  const lines = [`${type}: ${message} ${JSON.stringify(fields)}`, ...frames]
  return `${lines.join('\n')}${cause === undefined ? '' : `\ncaused by ${describeError(cause)}`}`
}

/** Prints the cause of each 500, since its response does not have it. */
const failureLog = {
  write(line: string) {
    const { err, msg, request_id } = JSON.parse(line)
    if (msg !== failures.INTERNAL_SERVER_ERROR.message) return
    console.error(`500 in the request ${request_id}: ${describeError(err)}`)
  },
}

/**
 * Starts the app on a free port until the test ends. `settings` are environment variables. Passwords are hashed with
 * `quickHasher`; `passwordHasher: undefined` stands for the hasher of the service. The cause of a 500 is printed, unless
 * the test reads the log (`logs`) or sets LOG_LEVEL.
 */
export async function testApp(
  t: Owner,
  settings: Record<string, string> = {},
  { resources, ...overrides }: TestOverrides = {},
): Promise<TestApp> {
  const database = overrides.database ?? (await testDatabase(t))
  const printsFailures = !overrides.logs && settings.LOG_LEVEL === undefined
  const config = readConfig({
    NODE_ENV: 'test',
    LOG_LEVEL: printsFailures ? 'error' : 'silent',
    ADMIN_API_KEY: ADMIN_KEY,
    APP_SECRET,
    DATA_DIR: testFolder(t),
    DATABASE_SCHEMA: database.schema,
    ...WITHOUT_LIMITS,
    ...settings,
  })
  const app = await buildApp(config, {
    maxLoopDelayMs: Number.POSITIVE_INFINITY,
    maxWaitMs: MAX_WAIT_MS,
    passwordHasher: quickHasher,
    ...(printsFailures && { logs: failureLog }),
    ...overrides,
    ...(resources && { resources: serveAll(resources) }),
    database,
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => {
    // A connection that has sent no byte is not idle for Node.js, and would delay the end by 30 s: `fetch` may open one
    // when a response is aborted.
    const timer = setTimeout(() => app.server.closeAllConnections(), 1_000)
    await app.close()
    clearTimeout(timer)
  })
  // Keeps connections open while a test computes for seconds between two requests.
  app.server.keepAliveTimeout = 120_000
  const { port } = app.server.address() as AddressInfo
  const base = `http://127.0.0.1:${port}`
  const admin = createClient(base, { 'x-api-key': ADMIN_KEY })
  const [first] = await database.run(`select id from users where role = 'admin' order by created_at limit 1`)
  const person: TestApp['person'] = async (role, scopes = ['*']) => {
    const { id, key } = await insertUser(database, role, scopes)
    const grant = await app.sessions.create({ id, role }, { ip: '127.0.0.1', userAgent: 'test' })
    const token = app.accessTokens.issue(grant).text
    return {
      id,
      key,
      client: createClient(base, { 'x-api-key': key }),
      bearer: createClient(base, { authorization: `Bearer ${token}` }),
      token,
      sessionId: grant.sessionId,
    }
  }
  return {
    app,
    database,
    base,
    port,
    admin,
    adminId: String(first?.id),
    anybody: createClient(base, {}),
    person,
    async peopleOfAllRoles() {
      const people: [Role, Person][] = []
      for (const role of roles) people.push([role, await person(role)])
      // `roles` has all keys of the record.
      return Object.fromEntries(people) as Record<Role, Person>
    },
  }
}

/** Milliseconds for which a token is accepted after its end. */
const LEEWAY_MS = 30_000

/** Issues an access token that ends after ACCESS_TOKEN_TTL with its leeway, which tests do not wait for. */
export function issueEndingToken(
  { app }: Pick<TestApp, 'app'>,
  { id, sessionId }: Person,
  role: Role,
): string {
  const { now } = Date
  Date.now = () => now() - LEEWAY_MS
  try {
    return app.accessTokens.issue({ userId: id, sessionId, role }).text
  } finally {
    Date.now = now
  }
}

const PARAMETERS = { memoryCost: 64, timeCost: 1, parallelism: 1 }

export const quickHasher: PasswordHasher = {
  hash: (password) => hash(password, PARAMETERS),
  // A hash contains its parameters.
  verify: argon2.verify,
}

/** Returns an array to which each message on the channel is added until the test ends. */
export function recordMessages(t: Owner, channel: string): unknown[] {
  const messages: unknown[] = []
  const record = (message: unknown) => messages.push(message)
  subscribe(channel, record)
  t.teardown(() => unsubscribe(channel, record))
  return messages
}
