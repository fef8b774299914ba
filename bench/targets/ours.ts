/** This service as it is run in production: limits on and set high, LOG_LEVEL=warn; with a key, and with a token. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Position, send, type Target } from './target.ts'
import { version1 } from './v1.ts'

export const ADMIN_PASSWORD = 'bench-password-bench-password'
const MOST = '1000000000'

/** What the server and its commands are told. */
export const settings: Record<string, string> = {
  APP_SECRET: 'bench-secret-bench-secret-bench-secret',
  ADMIN_PASSWORD,
  INSECURE_HTTP: 'true',
  HOST: '127.0.0.1',
  LOG_LEVEL: 'warn',
  DATA_DIR: join(tmpdir(), 'resource-api-bench'),
  SHUTDOWN_DELAY: '0',
  ACCESS_TOKEN_TTL: '86400',
  RATE_LIMIT: MOST,
  RATE_LIMIT_BURST: MOST,
  RATE_LIMIT_ANONYMOUS: MOST,
  RATE_LIMIT_TOKENS: MOST,
  USER_CONCURRENCY: '1000',
}

const PREFIX = '/api/v1'
/** A page of so many ends at every position. */
export const STEP = 9

/** The cursors that the server wrote for positions, by their ids; one secret, so that both targets can use them. */
const cursors = new Map<string, string>()

const api = version1(PREFIX, ({ id }) => {
  const cursor = cursors.get(id)
  if (cursor === undefined) throw new Error(`No page ends at ${id}`)
  return cursor
})

interface Page {
  data: { id: string }[]
  pagination: { cursor: string | null }
}

/** Cursors are the server's secret: they are had by walking the list, as any client would. */
async function walk(base: string, headers: Record<string, string>, positions: readonly Position[]) {
  if (positions.every(({ id }) => cursors.has(id))) return
  let cursor: string | null = ''
  while (cursor !== null) {
    const path: string = `${PREFIX}/users?status=active&limit=${STEP}&cursor=${cursor}`
    const { status, text } = await send(base, { method: 'GET', path, headers })
    if (status !== 200) throw new Error(`A page of users is ${status}: ${text}`)
    const page: Page = JSON.parse(text)
    cursor = page.pagination.cursor
    const last = page.data.at(-1)
    if (last && cursor !== null) cursors.set(last.id, cursor)
  }
}

async function create(base: string, path: string, body: object, headers: Record<string, string> = {}) {
  const call = { method: 'POST', path: `${PREFIX}${path}`, headers, body: JSON.stringify(body) }
  const { status, text } = await send(base, call)
  if (status !== 201) throw new Error(`POST ${path} is ${status}: ${text}`)
  const made: { data: Record<string, unknown> } = JSON.parse(text)
  return made.data
}

async function signIn(base: string): Promise<Record<string, string>> {
  const grant = { grant_type: 'password', email: 'admin@example.com', password: ADMIN_PASSWORD }
  const { access_token: token } = await create(base, '/tokens', grant)
  return { Authorization: `Bearer ${token}` }
}

/** A key like any other, looked up in the database: the bootstrap key never is. */
async function makeKey(base: string): Promise<Record<string, string>> {
  const { key } = await create(base, '/api-keys', { name: 'bench', scopes: ['*'] }, await signIn(base))
  return { 'X-API-Key': String(key) }
}

const common = {
  folder: fileURLToPath(new URL('../..', import.meta.url)),
  script: 'dist/src/server.js',
  env: settings,
  api,
  prepare: walk,
}

export const oursWithKey: Target = {
  name: 'ours-key',
  title: 'ours, X-API-Key',
  ...common,
  headers: makeKey,
}
/** The same from another checkout, built there: what a change costs is measured beside what was before. */
export const baselineWithKey: Target = {
  name: 'baseline-key',
  title: 'baseline, X-API-Key',
  ...common,
  folder: process.env.BENCH_BASELINE ?? common.folder,
  headers: makeKey,
}
export const oursWithToken: Target = {
  name: 'ours-token',
  title: 'ours, Bearer token',
  ...common,
  headers: signIn,
}
