/** Starts the PostgreSQL of the bench and seeds its databases. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { SOURCE_FLAGS } from '../packages/testing/helpers/process.ts'
import { readProcessTreeCpu } from './cpu.ts'
import { LOAD_CORE, runProcess } from './processes.ts'
import { ADMIN_PASSWORD, serverSettings } from './targets/resource-api.ts'

const script = fileURLToPath(new URL('postgres.sh', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))

/** The date at which the seeded data ends; fixed, so that every run has the same data. */
const SEED_END_DATE = '2026-01-01'
const IDLE_POLLING_INTERVAL_MS = 20

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

/** Runs a program of a checkout on a database. Returns its last line. */
async function runOn(url: string, args: readonly string[], folder = root): Promise<string> {
  const output = await runProcess({
    core: LOAD_CORE,
    args: [process.execPath, ...args],
    cwd: folder,
    env: { ...serverSettings, ADMIN_PASSWORD, NODE_ENV: 'production', DATABASE_URL: url },
  })
  return output.trim().split('\n').at(-1) ?? ''
}

/** Runs a command of this service on a database. */
export const runCommandLine = (url: string, args: readonly string[]) =>
  runOn(url, ['dist/src/cli.js', ...args])

const SEED = [...SOURCE_FLAGS, '--import=./src/application.ts', 'bench/seed/main.ts']

const runStartScript = () => execFileSync(script, ['start'], { encoding: 'utf8' }).trim()
export const stopServer = () => execFileSync(script, ['stop'])

/** @param settings of PostgreSQL, for the connections */
export const connect = (url: string, settings: Record<string, string> = {}) =>
  postgres(url, { max: 2, connection: { TimeZone: 'UTC', ...settings }, onnotice: () => undefined })

const toShortVersion = (version: unknown) => String(version).split(' ').slice(0, 2).join(' ')

/** Creates the database if it does not exist, and seeds it if it is empty, by the command of a checkout. Returns its URL. */
export async function ensureSeeded(url: string, users: number, folder = root): Promise<string> {
  await createDatabase(url)
  const sql = connect(url)
  try {
    const [table] = await sql`select to_regclass('public.products') is not null as exists`
    const [row] = table?.exists ? await sql`select 1 from products limit 1` : []
    if (!row) {
      console.log(await runOn(url, [...SEED, '--users', String(users), '--until', SEED_END_DATE], folder))
      await sql`vacuum (analyze)`
    }
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

/** Returns a digest of the migrations of a checkout. */
function hashMigrations(checkout: string): string {
  const digest = createHash('sha256')
  for (const folder of ['packages/database/migrations', 'drizzle']) {
    const names = readdirSync(join(checkout, folder), { recursive: true, encoding: 'utf8' })
    for (const name of names.filter((each) => each.endsWith('.sql')).sort())
      digest.update(readFileSync(join(checkout, folder, name)))
  }
  return digest.digest('hex').slice(0, 8)
}

/** Makes a copy of a database, in the place of an earlier one. */
export async function copyDatabase(server: string, template: string, name: string): Promise<void> {
  const admin = connect(`${server}/postgres`)
  try {
    await admin`drop database if exists ${admin(name)} with (force)`
    await admin`create database ${admin(name)} template ${admin(template)}`
  } finally {
    await admin.end()
  }
}

/** Connects to a copy of the seeded database. */
export function openRows(url: string) {
  const sql = connect(url)
  return {
    url,
    sql,
    /** Deletes the products and the events of a measurement, so that each one starts with the same data. */
    async deleteWrittenRows() {
      await sql`delete from products where sku like 'BENCH-%'`
      await sql`vacuum (analyze) products`
      const names = ['outbox', 'events', 'reference_outbox']
      const tables = await sql`select tablename from pg_tables where tablename = any(${names})`
      if (tables.length > 0) await sql`truncate ${sql(tables.map(({ tablename }) => tablename))}`
    },
    /** Waits for the requests that were in progress when the load generator stopped. */
    async waitUntilIdle() {
      const readActive = () => sql`
        select 1 from pg_stat_activity
        where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()`
      while ((await readActive()).length > 0) await wait(IDLE_POLLING_INTERVAL_MS)
    },
  }
}

export type Rows = ReturnType<typeof openRows>

/** Copies the seeded database and connects to the copy. */
async function openCopy(server: string, template: string, name: string) {
  await copyDatabase(server, template, name)
  const rows = openRows(`${server}/${name}`)
  const pid = await readPostmasterPid(rows.sql)
  return {
    ...rows,
    /** Returns the microseconds of CPU that the PostgreSQL server has used, for all databases. */
    readCpu: () => readProcessTreeCpu(pid),
    async drop() {
      await rows.sql.end()
      const admin = connect(`${server}/postgres`)
      await admin`drop database ${admin(name)} with (force)`
      await admin.end()
    },
  }
}

/** Starts the server if it is not running, and opens a copy of the seeded database, which is created if it does not exist. */
export async function openBenchDatabase(users: number) {
  const { server, version } = await startServer()
  const copies: Awaited<ReturnType<typeof openCopy>>[] = []
  const copy = async (name: string, folder = root) => {
    const template = `seed_${users}_${hashMigrations(folder)}`
    await ensureSeeded(`${server}/${template}`, users, folder)
    const database = await openCopy(server, template, name)
    copies.push(database)
    return database
  }
  return {
    ...(await copy('bench')),
    version,
    /** Opens another copy: a server handles the events of its database, so each target has its own, seeded by its checkout. */
    copy,
    async close() {
      for (const database of copies) await database.drop()
      stopServer()
    },
  }
}

/** A copy of the seeded database. */
export type DatabaseCopy = Awaited<ReturnType<typeof openCopy>>
export type BenchDatabase = Awaited<ReturnType<typeof openBenchDatabase>>
export type Sql = DatabaseCopy['sql']
