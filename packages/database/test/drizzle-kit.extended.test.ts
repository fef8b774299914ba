/** The commands of drizzle-kit run with the configuration of an application, and touch nothing but its tables. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { CITUS, createDatabase, type Owner, SERVER, testFolder } from '../../testing/helpers/database.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import { readMigratedState } from '../../testing/src/reset-database.ts'
import { type Database, openDatabase } from '../src/client/index.ts'
import { migrate } from '../src/migrate.ts'
import { getRecordTable } from '../src/migration-records.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const PROGRAM = 'node_modules/drizzle-kit/bin.cjs'
const MIGRATIONS = 'drizzle/migrations'
const PRODUCTS = 'drizzle/tables/products.ts'

/** Copies the files of tables and the migrations of the shop, where a test can change them. */
function createApplication(t: Owner) {
  const folder = testFolder(t)
  for (const path of ['drizzle', 'drizzle.config.ts', 'schemas'])
    cpSync(join(root, path), join(folder, path), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  const edit = (path: string, from: string, to: string) => {
    const text = readFileSync(join(folder, path), 'utf8')
    if (!text.includes(from)) throw new Error(`${path} has no ${from}`)
    writeFileSync(join(folder, path), text.replace(from, to))
  }
  return { folder, migrations: join(folder, MIGRATIONS), edit }
}

const getEnvironment = (env: NodeJS.ProcessEnv) => ({
  PATH: process.env.PATH,
  NODE_OPTIONS: '--conditions=resource-api',
  ...env,
})

/** Runs a command of drizzle-kit, without a terminal. */
function run(folder: string, env: NodeJS.ProcessEnv, ...args: string[]) {
  const options = { cwd: folder, env: getEnvironment(env), encoding: 'utf8' as const }
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], options)
  return { code: status, output: stdout + stderr }
}

/** Returns the statements that `push --verbose` prints. */
const listStatements = (output: string): string[] =>
  (/current statements:\s+(.*;)/s.exec(output)?.[1] ?? '').split(/;\s*/).filter((each) => each !== '')

t.test('without a server, each command says what to use instead', async (t) => {
  const { folder } = createApplication(t)
  for (const [command, advice] of Object.entries({
    migrate: "Run the command 'migrate' of the service.",
    push: "Run 'npm run migrations -- --name what-changes', and then the command 'migrate' of the service.",
    pull: "The command 'new NAME --from public.table' reads one table.",
    studio: "The command 'copy --to' of the service copies the data to a server.",
  })) {
    const { code, output } = run(folder, {}, command)
    t.equal(code, 1, command)
    t.match(
      output,
      `DATABASE_URL is not set, and 'drizzle-kit ${command}' cannot open the embedded database. ${advice}`,
    )
    const url = 'postgres://api:secret@127.0.0.1:1/api'
    const tenant = run(folder, { DATABASE_URL: url, DATABASE_SCHEMA: 'tenant_a' }, command)
    t.match(
      tenant.output,
      `DATABASE_SCHEMA is tenant_a, and 'drizzle-kit ${command}' knows no schema but public. ${advice}`,
    )
    t.notMatch(tenant.output, 'secret')
  }
  const { output } = run(
    folder,
    { DATABASE_URL: 'postgres://127.0.0.1/api?options=-c%20role%3Dx' },
    'migrate',
  )
  t.match(output, 'drizzle-kit ignores the parameter "options" of DATABASE_URL')
})

t.test('migrations can be generated before the first table and after the last one', async (t) => {
  const { folder, migrations } = createApplication(t)
  const generate = () => run(folder, {}, 'generate', '--name', 'next')
  t.match(generate(), { code: 0, output: 'No schema changes' })
  t.match(run(folder, {}, 'check'), { code: 0, output: "Everything's fine" })

  rmSync(join(folder, 'drizzle/tables'), { recursive: true })
  t.match(generate(), { code: 0, output: '0 tables' })
  const [file = ''] = readdirSync(migrations).filter((name) => name.endsWith('_next.sql'))
  const tables = ['orders', 'order_products', 'posts', 'products']
  for (const name of tables)
    t.match(readFileSync(join(migrations, file), 'utf8'), `DROP TABLE "${name}" CASCADE`)

  rmSync(migrations, { recursive: true })
  t.match(generate(), { code: 0, output: 'No schema changes' })
})

const skip = SERVER && SERVER !== CITUS ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

/** Objects of another program, of every kind that drizzle-kit compares. */
const OTHERS = [
  'create sequence tickets_sequence start 5 increment -2 minvalue -100 maxvalue 10 cache 7 cycle',
  `create type "Mood" as enum ('good', 'it''s bad')`,
  `create table tickets (id serial primary key, place bigint generated always as identity, mood "Mood",
    number bigint default nextval('tickets_sequence'))`,
  'create view open_tickets as select id from tickets',
  'create materialized view counted_tickets as select count(*) from tickets',
  'create schema other',
  'create table other.tickets (id int)',
]

const COLUMN = 'description: text(),'
const SEATS = `import { sql } from 'drizzle-orm'
import { index, integer, pgEnum, pgSequence, pgTable, pgView, serial, text } from 'drizzle-orm/pg-core'
import { text as ordered } from '@resource-api/database'
export const seatNumbers = pgSequence('seat_numbers')
export const seatKind = pgEnum('seat_kind', ['stool', 'bench'])
export const seats = pgTable('seats', {
  id: serial().primaryKey(),
  place: integer().generatedAlwaysAsIdentity(),
  kind: seatKind().notNull(),
  label: ordered().notNull(),
}, (t) => [index('seats_label').on(t.kind, sql\`lower(\${t.label})\`, t.id)])
export const stools = pgView('stools', { id: integer(), label: text() })
  .as(sql\`select id, label from seats where kind = 'stool'\`)
`

t.test('with a server', { skip }, async (t) => {
  const server = SERVER ?? ''

  /** Opens a new database, with the tables of the packages and those of the shop. */
  async function open(t: Owner) {
    const url = await createDatabase(t, server)
    const db = await openDatabase({ url })
    t.teardown(() => db.close())
    await migrate(db)
    return { db, env: { DATABASE_URL: url } }
  }
  const readCatalog = async (db: Database) => (await readMigratedState(db, false)).catalog

  t.test('push changes only what the files of tables declare', async (t) => {
    const { folder, edit } = createApplication(t)
    const { db, env } = await open(t)
    for (const statement of OTHERS) await db.run(statement)
    const push = () => run(folder, env, 'push', '--verbose', '--force')
    const before = await readCatalog(db)
    t.match(push(), { code: 0, output: 'No changes detected' })
    t.equal(await readCatalog(db), before)

    edit(PRODUCTS, COLUMN, `${COLUMN} origin: text(),`)
    const { output } = push()
    t.match(output, 'Changes applied')
    t.strictSame(listStatements(output), ['ALTER TABLE "products" ADD COLUMN "origin" text COLLATE "C"'])
    await db.run('alter table products drop column origin')
    edit(PRODUCTS, ' origin: text(),', '')
    t.equal(await readCatalog(db), before, 'all else is as before')

    writeFileSync(join(folder, 'drizzle/tables/seats.ts'), SEATS)
    const created = listStatements(push().output)
    t.match(created, [
      /^CREATE TYPE "public"."seat_kind" AS ENUM/,
      /^CREATE SEQUENCE "public"."seat_numbers"/,
      /^CREATE TABLE "seats"/,
      /^CREATE INDEX "seats_label"/,
      /^CREATE VIEW "public"."stools"/,
    ])
    t.equal(created.length, 5)
    const after = await readCatalog(db)
    t.match(push(), { code: 0, output: 'No changes detected' })
    t.equal(await readCatalog(db), after)

    rmSync(join(folder, 'drizzle/tables'), { recursive: true })
    t.match(push(), { code: 0, output: 'No changes detected' })
    t.equal(await readCatalog(db), after, 'a table whose file is removed stays')
  })

  t.test('drizzle-kit and the service agree on the migrations of the application', async (t) => {
    const { folder, migrations, edit } = createApplication(t)
    const folders = [migrations]
    const { db, env } = await open(t)
    // A later release of the packages.
    const packages = getRecordTable('public', 'packages')
    await db.run(`insert into ${packages} (hash, created_at) values ('later', $1)`, [Date.now() + 86_400_000])
    const hasColumn = async (name: string) =>
      (await db.run('select from pg_attribute where attname = $1', [name])).length === 1
    const generate = (name: string) => t.equal(run(folder, {}, 'generate', '--name', name).code, 0)

    edit(PRODUCTS, COLUMN, `${COLUMN} origin: text(),`)
    generate('origin')
    t.match(run(folder, env, 'migrate'), { code: 0, output: 'migrations applied successfully' })
    t.ok(await hasColumn('origin'))
    t.strictSame(await migrate(db, { folders }), [], 'the service has nothing to do')

    edit(PRODUCTS, COLUMN, `${COLUMN} harvest: text(),`)
    generate('harvest')
    t.match(await migrate(db, { folders }), [/_harvest$/])
    t.ok(await hasColumn('harvest'))
    const record = () => db.run(`select * from ${getRecordTable('public', 'application')} order by id`)
    const before = await record()
    t.equal(before.length, 3)
    t.match(run(folder, env, 'migrate'), { code: 0, output: 'migrations applied successfully' })
    t.strictSame(await record(), before, 'drizzle-kit has nothing to do')
  })

  t.test('push and migrate wait for the tables of the packages', async (t) => {
    const { folder } = createApplication(t)
    const url = await createDatabase(t, server)
    const db = await openDatabase({ url })
    t.teardown(() => db.close())
    for (const command of ['migrate', 'push'])
      t.match(run(folder, { DATABASE_URL: url }, command), {
        code: 1,
        output: /lacks \d+ migrations? of the packages.* Run the command 'migrate' of the service\./,
      })
    t.strictSame(await db.run(`select relname from pg_class where relname = 'orders'`), [])
  })

  t.test('a schema of the search path is none that drizzle-kit knows', async (t) => {
    const { folder } = createApplication(t)
    const url = await createDatabase(t, server)
    const admin = await openDatabase({ url })
    t.teardown(() => admin.close())
    await admin.run('create schema later')
    await admin.run(
      `do 'begin execute format(''alter database %I set search_path = later, public'', current_database()); end'`,
    )
    const db = await openDatabase({ url })
    t.teardown(() => db.close())
    await migrate(db)
    for (const command of ['migrate', 'push'])
      t.match(run(folder, { DATABASE_URL: url }, command), {
        code: 1,
        output: `The tables are in the schema later, and 'drizzle-kit ${command}' knows no schema but public.`,
      })
  })

  t.test('studio reads the database', async (t) => {
    const { folder } = createApplication(t)
    const { env } = await open(t)
    const port = await findPort()
    const args = [PROGRAM, 'studio', '--host', '127.0.0.1', '--port', `${port}`]
    const studio = spawn(process.execPath, args, { cwd: folder, env: getEnvironment(env) })
    t.teardown(() => studio.kill('SIGKILL'))
    let output = ''
    studio.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    await waitUntil(() => output.includes('up and running'))
    const query = { sql: 'select count(*)::int as users from users', params: [], method: 'get' }
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'proxy', data: query }),
    })
    t.strictSame(await response.json(), [{ users: 0 }])
  })
})

/** Returns a port that no process listens on. */
async function findPort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  if (address === null || typeof address === 'string') throw new Error('There is no port')
  return address.port
}
