/** An application with a database of its own, on a free port, and clients of each role. */
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { hash, verify } from '@node-rs/argon2'
import type { PasswordHasher } from '@resource-api/accounts'
import { getKeyPrefix, hashKey, makeKey } from '@resource-api/accounts/internal'
import { failures } from '@resource-api/api/errors'
import type { Database } from '@resource-api/database'
import { type Role, roles } from '@resource-api/database/roles'
import { type Config, readConfig } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'
import { v7 as uuid } from 'uuid'
import { type Client, createClient, type Json } from './client.ts'
import { testDatabase } from './database.ts'
import { type Owner, testFolder } from './templates.ts'

export const APP_SECRET = 'test-secret-test-secret-test-secret-test'
export const ADMIN_KEY = 'test-admin-key-test-admin-key-test-admin-key'
/** Requests of a test are not refused because the machine is busy. */
const MAX_WAIT_MS = 60_000

/** Settings without which a test would be limited. */
export const WITHOUT_LIMITS = {
  RATE_LIMIT: '1000000000',
  RATE_LIMIT_BURST: '1000000000',
  RATE_LIMIT_ANONYMOUS: '1000000000',
  USER_CONCURRENCY: '1000000000',
  RATE_LIMIT_TOKENS: '1000000000',
  RATE_LIMIT_AUTH_FAILURES: '1000000000',
  LOGIN_FAILURES: '100000000',
}

/** What `testApp` gives an application in the place of its own. */
export interface TestOverrides {
  database?: Database
  passwordHasher?: PasswordHasher | undefined
  maxLoopDelayMs?: number
  maxWaitMs?: number
  logs?: { write(line: string): void }
}

/** Builds the application, ready to listen. */
export type BuildApp<O extends TestOverrides = TestOverrides> = (
  config: Config,
  overrides: O,
) => Promise<FastifyInstance>

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

const PARAMETERS = { memoryCost: 64, timeCost: 1, parallelism: 1 }

export const quickHasher: PasswordHasher = {
  hash: (password) => hash(password, PARAMETERS),
  // A hash contains its parameters.
  verify,
}

/**
 * Starts an application on a free port until the test ends, with an embedded database of its own or, with DATABASE_URL, one
 * on that server. The cause of a 500 is printed, unless the test reads the log (`logs`) or sets LOG_LEVEL. Passwords are
 * hashed with little memory and time, unless the test names a hasher.
 * @param settings environment variables
 * @param overrides further arguments of `buildApp`
 */
export async function testApp<O extends TestOverrides>(
  t: Owner,
  buildApp: BuildApp<O>,
  settings: Readonly<Record<string, string>> = {},
  overrides?: O,
): Promise<TestApp> {
  const database = overrides?.database ?? (await testDatabase(t))
  const printsFailures = !overrides?.logs && settings.LOG_LEVEL === undefined
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
  const given: TestOverrides = {
    maxLoopDelayMs: Number.POSITIVE_INFINITY,
    maxWaitMs: MAX_WAIT_MS,
    passwordHasher: quickHasher,
    ...(printsFailures && { logs: failureLog }),
    ...overrides,
    database,
  }
  // All members of O are those of `overrides` and of the given ones.
  const app = await buildApp(config, given as O)
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
