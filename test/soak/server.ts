/** Starts the servers of the soak tests, on databases of their own. */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import type { Database } from '../../drizzle/client/types.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { ADMIN_KEY, APP_SECRET, type Client, createClient } from '../helpers/app.ts'
import { createDatabase, type Owner, testFolder } from '../helpers/database.ts'
import { startModule, startServer } from '../helpers/process.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'

/** The PostgreSQL server on which databases are created. */
const DATABASE_SERVER = process.env.DATABASE_URL || 'postgres://root@127.0.0.1:5432/postgres'

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

/** The settings of a server without rate limits. All servers have the same secret: cursors of one are valid on another. */
export const SETTINGS = {
  ...{ ...WITHOUT_LIMITS, PORT: '0', LOG_LEVEL: 'silent' },
  ...{ APP_SECRET, ADMIN_API_KEY: ADMIN_KEY },
}

export const createAdmin = (base: string): Client => createClient(base, { 'x-api-key': ADMIN_KEY })

/** Starts a server without rate limits. */
export async function startSoakServer(t: Owner, settings: NodeJS.ProcessEnv, flags: readonly string[] = []) {
  const server = await startServer(t, { ...SETTINGS, ...settings }, 'server.js', flags)
  return { ...server, port: Number(new URL(server.url).port), admin: createAdmin(server.url) }
}

/** Runs the command `seed`. @returns its last line */
export async function seedDatabase(
  t: Owner,
  settings: NodeJS.ProcessEnv,
  users: number,
): Promise<string | undefined> {
  const { ended, output } = startModule(t, 'cli.js', settings, ['seed', '--users', String(users)])
  const { code } = await ended
  if (code !== 0) throw new Error(`seed: ${output.err}`)
  return output.out.trim().split('\n').at(-1)
}

/** Creates a member with an API key, without requests. */
export async function createMember(database: Database) {
  const [id, key] = [uuid(), makeKey()]
  const email = `${id}@example.com`
  await database.run(`insert into users (id, name, email, search) values ($1, '0', $2, '0')`, [id, email])
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'soak', $3, $4, '["*"]', now() + interval '1 day')`,
    [uuid(), id, getKeyPrefix(key), hashKey(key)],
  )
  return { id, email, key }
}

/** Sends requests until one returns 200: a server, or its database, starts. */
export async function waitUntilServed(client: Client): Promise<void> {
  for (;;) {
    const reply = await client.get('/products?limit=1').catch(() => undefined)
    if (reply?.status === 200) return
    await wait(10)
  }
}
