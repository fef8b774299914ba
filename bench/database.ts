/** Starts the PostgreSQL of the bench and seeds its databases. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { readProcessTreeCpu } from './cpu.ts'
import { LOAD_CORE, runProcess } from './processes.ts'
import { ADMIN_PASSWORD, serverSettings } from './targets/resource-api.ts'

const script = fileURLToPath(new URL('postgres.sh', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))

/** The date at which the seeded data ends; fixed, so that every run has the same data. */
const SEED_END_DATE = '2026-01-01'

async function createDatabase(url: string): Promise<void> {
  const { pathname } = new URL(url)
  const server = postgres(`${url.slice(0, -pathname.length)}/postgres`, { max: 1 })
  try {
    const name = pathname.slice(1)
    const [existing] = await server`select 1 from pg_database where datname = ${name}`
    if (!existing) await server`create database ${server(name)}`
  } finally {
    await server.end()
  }
}

/** Runs a command of this service on a database. Returns its last line. */
export async function runCommandLine(url: string, args: readonly string[]): Promise<string> {
  const output = await runProcess({
    core: LOAD_CORE,
    args: [process.execPath, 'dist/src/cli.js', ...args],
    cwd: root,
    env: { ...serverSettings, ADMIN_PASSWORD, NODE_ENV: 'production', DATABASE_URL: url },
  })
  return output.trim().split('\n').at(-1) ?? ''
}

const runStartScript = () => execFileSync(script, ['start'], { encoding: 'utf8' }).trim()
export const stopServer = () => execFileSync(script, ['stop'])

/** @param settings of PostgreSQL, for the connections */
export const connect = (url: string, settings: Record<string, string> = {}) =>
  postgres(url, { max: 2, connection: { TimeZone: 'UTC', ...settings }, onnotice: () => undefined })

const toShortVersion = (version: unknown) => String(version).split(' ').slice(0, 2).join(' ')

/** Creates the database if it does not exist, and seeds it if it is empty. Returns its URL. */
export async function ensureSeeded(url: string, users: number): Promise<string> {
  await createDatabase(url)
  const sql = connect(url)
  try {
    const [table] = await sql`select to_regclass('public.products') is not null as exists`
    const [row] = table?.exists ? await sql`select 1 from products limit 1` : []
    if (!row)
      console.log(await runCommandLine(url, ['seed', '--users', String(users), '--until', SEED_END_DATE]))
    return url
  } finally {
    await sql.end()
  }
}

/** Starts the server if it is not running. Returns its URL without a database name, and its version. */
export async function startServer() {
  const url = runStartScript()
  const server = url.slice(0, url.lastIndexOf('/'))
  const sql = connect(`${server}/postgres`)
  try {
    const [row] = await sql`select version()`
    return { server, version: toShortVersion(row?.version) }
  } finally {
    await sql.end()
  }
}

/** Returns the process id of the postmaster, the parent of all processes of a PostgreSQL server on this machine. */
export async function readPostmasterPid(sql: ReturnType<typeof connect>): Promise<number> {
  const [row] = await sql`select current_setting('data_directory') as folder`
  return Number(readFileSync(`${row?.folder}/postmaster.pid`, 'utf8').split('\n')[0])
}

/** Starts the server if it is not running, and seeds the bench database if it is empty. */
export async function openBenchDatabase(users: number) {
  const url = await ensureSeeded(runStartScript(), users)
  const sql = connect(url)
  const [row] = await sql`select version()`
  const pid = await readPostmasterPid(sql)
  return {
    url,
    sql,
    version: toShortVersion(row?.version),
    /** Returns the microseconds of CPU that the server has used. */
    readCpu: () => readProcessTreeCpu(pid),
    /** Deletes the products and the events that measurements created, so that each one starts with the same data. */
    async deleteWrittenRows() {
      await sql`delete from products where sku like 'BENCH-%'`
      await sql`vacuum (analyze) products`
      // A baseline of an earlier release has no events.
      const [table] = await sql`select to_regclass('public.outbox') is not null as exists`
      if (table?.exists) await sql`truncate outbox, events`
    },
    async close() {
      await sql.end()
      stopServer()
    },
  }
}

export type BenchDatabase = Awaited<ReturnType<typeof openBenchDatabase>>
export type Sql = BenchDatabase['sql']
