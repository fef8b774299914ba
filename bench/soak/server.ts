/** Starts the servers of the soak tests, on databases of their own. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../../packages/database/src/client/types.ts'
import { readConfig } from '../../packages/http/src/config/read-config.ts'
import {
  ADMIN_KEY,
  APP_SECRET,
  type Client,
  createClient,
  insertUser,
} from '../../packages/testing/helpers/app.ts'
import { createDatabase, type Owner, testFolder } from '../../packages/testing/helpers/database.ts'
import { startServer, WITHOUT_LIMITS } from '../../packages/testing/helpers/process.ts'
import { runSeed } from '../seed/run-seed.ts'
import { createRequest, type LoadRequest } from './load.ts'

/** The PostgreSQL server on which databases are created. */
const DATABASE_SERVER = process.env.DATABASE_URL || 'postgres://root@127.0.0.1:5432/postgres'
const REQUESTS_PER_WORKLOAD = 100

/** Stops a part that needs something that is not available. */
export class SkippedError extends Error {}

/** Returns the settings of a new database on the server. @throws SkippedError without DATABASE_URL and default server */
export async function createDatabaseSettings(t: Owner): Promise<NodeJS.ProcessEnv> {
  const DATABASE_URL = await createDatabase(t, DATABASE_SERVER).catch((error: unknown) => {
    const isMissing = error instanceof Error && error.name === 'DatabaseUnavailable'
    if (process.env.DATABASE_URL || !isMissing) throw error
    throw new SkippedError('set DATABASE_URL to a PostgreSQL on which databases may be created')
  })
  return { DATA_DIR: testFolder(t), DATABASE_URL }
}

/** All servers have the same secret: cursors of one are valid on another. */
export const SETTINGS = { PORT: '0', LOG_LEVEL: 'silent', APP_SECRET, ADMIN_API_KEY: ADMIN_KEY }

/** Starts a server without rate limits. */
export async function startSoakServer(t: Owner, settings: NodeJS.ProcessEnv, flags: readonly string[] = []) {
  const server = await startServer(t, { ...WITHOUT_LIMITS, ...SETTINGS, ...settings }, 'server.ts', flags)
  const admin = createClient(server.url, { 'x-api-key': ADMIN_KEY })
  return { ...server, port: Number(new URL(server.url).port), admin }
}

/** Fills a database with the rows of `npm run bench:seed`. @returns how many */
export const seedDatabase = (settings: NodeJS.ProcessEnv, users: number): Promise<string> =>
  runSeed(readConfig({ ...SETTINGS, ...settings }), { users, seed: 42, until: Date.now() })

/** Creates a member with an API key, without requests. */
export async function createMember(database: Database) {
  const { id, key } = await insertUser(database, 'member', ['*'])
  return { id, headers: { 'x-api-key': key } }
}

/** Gives a user a password, and returns the headers of a session. */
export async function signIn(base: string, admin: Client, userId: string) {
  const password = 'twelve brass cogs, turning'
  const { email } = (await admin.patch(`/users/${userId}`, { password })).body.data
  const grant = { grant_type: 'password', email, password }
  const { body, text } = await createClient(base, {}).post('/tokens', grant)
  if (!body.data) throw new Error(text)
  return { password, headers: { authorization: `Bearer ${body.data.access_token}` } }
}

/** Sends requests until one returns 200: a server, or its database, starts. */
export async function waitUntilServed(client: Client): Promise<void> {
  while ((await client.get('/products?limit=1').catch(() => undefined))?.status !== 200) await wait(10)
}

/** Creates the requests of the bench workloads in equal parts. */
export async function createWorkload(admin: Client): Promise<LoadRequest[]> {
  const cursors: string[] = []
  for (let cursor: string | null = ''; cursor !== null && cursors.length < REQUESTS_PER_WORKLOAD; ) {
    const path: string = `/users?status=active&limit=5${cursor && `&cursor=${cursor}`}`
    cursor = (await admin.get(path)).body.pagination.cursor
    if (cursor !== null) cursors.push(cursor)
  }
  const { body } = await admin.get(`/products?limit=${REQUESTS_PER_WORKLOAD}`)
  const ids: string[] = body.data.map(({ id }: { id: string }) => id)
  const requests: LoadRequest[] = []
  for (const [i, id] of ids.entries()) {
    // Half of the products are never changed, so that their entity tags stay valid.
    const [changed, unchanged] = [ids[i - (i % 2)], ids[i - (i % 2) + 1]].map((each) => `/products/${each}`)
    const etag = (await admin.get(`${unchanged}`)).headers.get('etag') ?? ''
    requests.push(
      ...[`/products/${id}`, '/products', `/users?status=active&cursor=${cursors[i % cursors.length]}`].map(
        (path) => createRequest('GET', path),
      ),
      createRequest('GET', '/orders?include=user'),
      createRequest('POST', '/users/me/posts', { body: { title: `Post ${i}`, body: 'x'.repeat(200) } }),
      createRequest('PATCH', `${changed}`, { body: { stock: 1_000 + i } }),
      createRequest('GET', `${unchanged}`, { headers: { 'x-api-key': ADMIN_KEY, 'if-none-match': etag } }),
    )
  }
  return requests
}
