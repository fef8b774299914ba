/** The bench's own PostgreSQL, filled once with the demo data. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { finish, LOAD_CORE } from './processes.ts'
import { ADMIN_PASSWORD, settings } from './targets/ours.ts'

const script = fileURLToPath(new URL('postgres.sh', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))

/** Always the same data, whatever the day. */
const UNTIL = '2026-01-01'

async function createDatabase(url: string): Promise<void> {
  const { pathname } = new URL(url)
  const server = postgres(`${url.slice(0, -pathname.length)}/postgres`, { max: 1 })
  try {
    const name = pathname.slice(1)
    const [found] = await server`select 1 from pg_database where datname = ${name}`
    if (!found) await server`create database ${server(name)}`
  } finally {
    await server.end()
  }
}

const seed = (url: string, users: number) =>
  finish({
    core: LOAD_CORE,
    args: [process.execPath, 'dist/src/cli.js', 'seed', '--users', String(users), '--until', UNTIL],
    cwd: root,
    env: { ...settings, ADMIN_PASSWORD, NODE_ENV: 'production', DATABASE_URL: url },
  })

const start = () => execFileSync(script, ['start'], { encoding: 'utf8' }).trim()
export const stopServer = () => execFileSync(script, ['stop'])

const connect = (url: string) =>
  postgres(url, { max: 2, connection: { TimeZone: 'UTC' }, onnotice: () => undefined })

const versionOf = (version: unknown) => String(version).split(' ').slice(0, 2).join(' ')

/** Makes the database where there is none, and fills it where it is empty. */
export async function filled(url: string, users: number): Promise<string> {
  await createDatabase(url)
  const sql = connect(url)
  try {
    const [table] = await sql`select to_regclass('public.products') is not null as there`
    const [row] = table?.there ? await sql`select 1 from products limit 1` : []
    if (!row) console.log((await seed(url, users)).trim().split('\n').at(-1))
    return url
  } finally {
    await sql.end()
  }
}

/** Starts it where it does not run, for databases of one's own. */
export async function startServer() {
  const url = start()
  const server = url.slice(0, url.lastIndexOf('/'))
  const sql = connect(`${server}/postgres`)
  try {
    const [row] = await sql`select version()`
    return { server, version: versionOf(row?.version) }
  } finally {
    await sql.end()
  }
}

/** Starts it where it does not run, and fills it where it is empty. */
export async function openBench(users: number) {
  const url = await filled(start(), users)
  const sql = connect(url)
  const [where] = await sql`select current_setting('data_directory') as folder, version() as version`
  const folder = String(where?.folder)
  return {
    url,
    sql,
    version: versionOf(where?.version),
    /** The process from which all of its others come. */
    pid: Number(readFileSync(`${folder}/postmaster.pid`, 'utf8').split('\n')[0]),
    /** What measurements left, so that the next one finds what the first one did. */
    async tidy() {
      await sql`delete from products where sku like 'BENCH-%'`
      await sql`vacuum (analyze) products`
    },
    async close() {
      await sql.end()
      stopServer()
    },
  }
}

export type Bench = Awaited<ReturnType<typeof openBench>>
export type Sql = Bench['sql']
