/** This service with production settings and high limits, called with an API key or with an access token. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Position } from '../rows.ts'
import { send, type Target } from './target.ts'
import { createVersion1Api } from './version1-api.ts'

export const ADMIN_PASSWORD = 'bench-password-bench-password'
/** A rate limit that no load reaches. */
const HIGH_LIMIT = '1000000000'

/** The environment of the server and of its commands. */
export const serverSettings: Record<string, string> = {
  APP_SECRET: 'bench-secret-bench-secret-bench-secret',
  ADMIN_PASSWORD,
  INSECURE_HTTP: 'true',
  HOST: '127.0.0.1',
  LOG_LEVEL: 'warn',
  DATA_DIR: join(tmpdir(), 'resource-api-bench'),
  SHUTDOWN_DELAY: '0',
  ACCESS_TOKEN_TTL: '86400',
  RATE_LIMIT: HIGH_LIMIT,
  RATE_LIMIT_BURST: HIGH_LIMIT,
  RATE_LIMIT_ANONYMOUS: HIGH_LIMIT,
  RATE_LIMIT_TOKENS: HIGH_LIMIT,
  USER_CONCURRENCY: '1000',
}

export const PREFIX = '/api/v1'
/** The page size with which cursors are collected: each sample position is the last user of such a page. */
export const CURSOR_PAGE_SIZE = 9

interface Page {
  data: { id: string }[]
  pagination: { cursor: string | null }
}

/** Collects the cursors of all positions by paging through the list: only the server can sign a cursor. */
async function collectCursors(
  base: string,
  headers: Record<string, string>,
  positions: readonly Position[],
  cursorsByUserId: Map<string, string>,
) {
  if (positions.every(({ id }) => cursorsByUserId.has(id))) return
  let cursor: string | null = ''
  while (cursor !== null) {
    const path: string = `${PREFIX}/users?status=active&limit=${CURSOR_PAGE_SIZE}&cursor=${cursor}`
    const { status, text } = await send(base, { method: 'GET', path, headers })
    if (status !== 200) throw new Error(`GET ${path} returned ${status}: ${text}`)
    const page: Page = JSON.parse(text)
    cursor = page.pagination.cursor
    const last = page.data.at(-1)
    if (last && cursor !== null) cursorsByUserId.set(last.id, cursor)
  }
}

/** Creates a resource. Returns its fields. @throws Error if the status is not 201 */
export async function postResource(
  base: string,
  path: string,
  body: object,
  headers: Record<string, string> = {},
) {
  const call = { method: 'POST', path: `${PREFIX}${path}`, headers, body: JSON.stringify(body) }
  const { status, text } = await send(base, call)
  if (status !== 201) throw new Error(`POST ${path} returned ${status}: ${text}`)
  const envelope: { data: Record<string, unknown> } = JSON.parse(text)
  return envelope.data
}

/** Signs in as the admin, or as another user. */
export async function createTokenHeaders(
  base: string,
  { email, password } = { email: 'admin@example.com', password: ADMIN_PASSWORD },
): Promise<Record<string, string>> {
  const grant = { grant_type: 'password', email, password }
  const { access_token: token } = await postResource(base, '/tokens', grant)
  return { Authorization: `Bearer ${token}` }
}

/** Creates an API key in the database; the bootstrap key would not be looked up there. */
async function createKeyHeaders(base: string): Promise<Record<string, string>> {
  const body = { name: 'bench', scopes: ['*'] }
  const { key } = await postResource(base, '/api-keys', body, await createTokenHeaders(base))
  return { 'X-API-Key': String(key) }
}

/** @param folder of the checkout */
function createService(folder: string) {
  // The cursors by the id of the last user. Another checkout may have another format.
  const cursorsByUserId = new Map<string, string>()
  return {
    folder,
    isService: true,
    script: 'dist/src/server.js',
    env: serverSettings,
    api: createVersion1Api(PREFIX, ({ id }) => {
      const cursor = cursorsByUserId.get(id)
      if (cursor === undefined) throw new Error(`No page ends with user ${id}`)
      return cursor
    }),
    prepare: (base: string, headers: Record<string, string>, positions: readonly Position[]) =>
      collectCursors(base, headers, positions, cursorsByUserId),
  }
}

const common = createService(fileURLToPath(new URL('../..', import.meta.url)))

export const serviceWithKey: Target = {
  name: 'ours-key',
  title: 'ours, X-API-Key',
  ...common,
  createHeaders: createKeyHeaders,
}
/** The service with an API key, without events: what they cost is the difference. */
export const serviceWithoutEvents: Target = {
  name: 'ours-no-events',
  title: 'ours, EVENTS=false',
  ...common,
  writesOnly: true,
  env: { ...serverSettings, EVENTS: 'false' },
  createHeaders: createKeyHeaders,
}
/** The service with an API key on a schema of another database. */
export const createSchemaTarget = (url: string, schema: string): Target => ({
  name: 'ours-citus',
  title: 'ours, a schema on Citus',
  ...common,
  env: { ...serverSettings, DATABASE_URL: url, DATABASE_SCHEMA: schema },
  createHeaders: createKeyHeaders,
})
/** The service from another checkout, which must be built: compares a change with the state before it. */
export const baselineWithKey: Target = {
  name: 'baseline-key',
  title: 'baseline, X-API-Key',
  ...createService(process.env.BENCH_BASELINE ?? common.folder),
  createHeaders: createKeyHeaders,
}
export const serviceWithToken: Target = {
  name: 'ours-token',
  title: 'ours, Bearer token',
  ...common,
  createHeaders: createTokenHeaders,
}
/** The service as a sender of mails to a server on loopback. */
export const createAccountsTarget = (mailUrl: string): Target => ({
  name: 'ours-accounts',
  title: 'ours, accounts',
  ...common,
  env: { ...serverSettings, MAIL_URL: mailUrl, MAIL_FROM: 'bench@example.com' },
})
/** The service as a sender of webhooks. Not in production, where it sends neither to loopback nor over http. */
export const serviceForWebhooks: Target = {
  name: 'ours-webhooks',
  title: 'ours, webhooks',
  ...common,
  env: { ...serverSettings, NODE_ENV: 'test' },
  createHeaders: createTokenHeaders,
}
