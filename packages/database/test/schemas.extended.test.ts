/** DATABASE_SCHEMA: services with schemas of their own share a database, and none sees anything of another. */
import { connect, createServer } from 'node:net'
import t from 'tap'
import { testApp } from '../../testing/helpers/app.ts'
import { runCommand } from '../../testing/helpers/command.ts'
import {
  CITUS,
  createDatabase,
  createRole,
  type Owner,
  SERVER,
  testFolder,
} from '../../testing/helpers/database.ts'
import { listen } from '../../testing/helpers/network.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import { type Database, DatabaseUnavailable, openDatabase } from '../src/client/index.ts'
import { readAppliedMigrations } from '../src/migration-records.ts'
import { ensureSchema } from '../src/schema-check.ts'

const APP_SECRET = 'kept-secret-kept-secret-kept-secret-kept'
const PRODUCT = { sku: 'SAME', name: 'Tea', price_amount: 1, stock: 5, status: 'active' }

/** Runs `migrate --schema` and opens the tables of that schema. */
async function openTenant(t: Parameters<typeof runCommand>[0] & Owner, url: string, schema: string) {
  const settings = { DATABASE_URL: url, DATA_DIR: testFolder(t) }
  const { code, err } = await runCommand(t, ['migrate', '--schema', schema], settings)
  if (code !== 0) throw new Error(err)
  const database = await openDatabase({ url, schema })
  t.teardown(() => database.close())
  return database
}

/** Creates a role without rights, and returns the settings of a service that uses it. */
async function createTenantRole(t: Owner, admin: Database, url: string) {
  const role = await createRole(t, admin)
  const { href } = Object.assign(new URL(url), { username: role })
  return { role, settings: { DATABASE_URL: href, DATA_DIR: testFolder(t), APP_SECRET } }
}

const readTables = async (database: Database, schema: string) => {
  const select = 'select tablename::text as name from pg_tables where schemaname = $1 order by 1'
  return (await database.run(select, [schema])).map(({ name }) => name)
}

// It creates three databases without a template, and is the same with a server.
const embedded = { skip: SERVER ? 'runs without DATABASE_URL' : false }

t.test('an embedded database has its tables in the schema, and nothing in another', embedded, async (t) => {
  const dataDir = testFolder(t)
  const settings = { DATA_DIR: dataDir, DATABASE_SCHEMA: 'tenant_a', APP_SECRET }
  t.equal((await runCommand(t, 'migrate', settings)).code, 0)
  const database = await openDatabase({ dataDir, schema: 'tenant_a' })
  t.ok((await readTables(database, 'tenant_a')).includes('users'))
  for (const schema of ['public', 'drizzle']) t.strictSame(await readTables(database, schema), [])
  const { admin } = await testApp(t, {}, { database })
  t.equal((await admin.post('/products', PRODUCT)).status, 201)
  await database.close()
  t.equal((await runCommand(t, 'migrate', settings)).out, 'The database is up to date\n')

  const file = `${testFolder(t)}/backup.gz`
  t.match(await runCommand(t, ['backup', file], settings), { code: 0, err: '' })
  const restored = testFolder(t)
  const other = { DATA_DIR: restored, DATABASE_SCHEMA: 'public', APP_SECRET }
  t.match(await runCommand(t, ['restore', file], other), { code: 0, err: '' })
  const copy = await openDatabase({ dataDir: restored })
  t.teardown(() => copy.close())
  t.strictSame(await copy.run('select sku from products'), [{ sku: 'SAME' }], 'a backup fits another schema')
})

t.test('names that are reserved or need quotes are refused', async (t) => {
  for (const name of ['Tenant', 'pg_tenant', 'a-b', 'information_schema', 'drizzle', 'a'.repeat(64), '1a'])
    t.match(
      await runCommand(t, ['migrate', '--schema', name], { DATA_DIR: testFolder(t) }),
      { code: 1, err: /DATABASE_SCHEMA .*a lower-case letter/ },
      name,
    )
})

const skip = SERVER && !CITUS ? false : 'set DATABASE_URL to a PostgreSQL server'

t.test('on a server', { skip }, async (t) => {
  const shared = new URL(await createDatabase(t, SERVER ?? ''))
  shared.searchParams.delete('application_name')
  const url = shared.href

  await t.test('tenants share a database and see nothing of each other', async (t) => {
    const [first, second] = [await openTenant(t, url, 'tenant_a'), await openTenant(t, url, 'tenant_b')]
    const { app, admin } = await testApp(t, {}, { database: first })
    const created = await admin.post('/products', PRODUCT)
    t.equal(created.status, 201)
    const ADMIN_API_KEY = 'another-key-another-key-another-key'
    const other = await testApp(t, { ADMIN_API_KEY }, { database: second })
    const { client } = await other.person('admin')
    t.equal((await client.get(`/products/${created.body.data.id}`)).status, 404)
    t.equal((await client.post('/products', PRODUCT)).status, 201, 'the same sku')
    const items = [{ product_id: created.body.data.id, quantity: 1 }]
    t.equal((await admin.post('/orders', { items })).status, 201)
    t.match((await client.get('/orders?page=1')).body.pagination, { total: 0 })
    await app.events.assignAll()
    const select = (table: string) => `select 1 from ${table} where type like 'orders%'`
    t.strictSame(await second.run(`${select('outbox')} union all ${select('events')}`), [])
    t.strictSame(await ensureSchema(first), [])
    const applied = await readAppliedMigrations(first, 'tenant_a')
    t.strictSame(await readAppliedMigrations(second, 'tenant_b'), applied)
    t.strictSame(await readTables(first, 'public'), [])
  })

  await t.test('the removal of an admin does not wait for that of another tenant', async (t) => {
    const [first, second] = [await openTenant(t, url, 'tenant_a'), await openTenant(t, url, 'tenant_b')]
    const [removeFirst, removeSecond] = await Promise.all(
      [first, second].map(async (database) => {
        const { admin, person } = await testApp(t, {}, { database })
        const { id } = await person('admin')
        return () => admin.patch(`/users/${id}`, { role: 'member' })
      }),
    )
    let waiting: Promise<unknown> | undefined
    await first.transaction(async (tx) => {
      await tx.run('lock table outbox in share mode')
      waiting = removeFirst?.().then(() => 'the first')
      const isLocked = `select 1 from pg_locks where locktype = 'advisory' and granted`
      await waitUntil(async () => (await second.run(isLocked)).length > 0)
      t.equal(await Promise.race([waiting, removeSecond?.().then(({ status }) => status)]), 200)
    })
    await waiting
  })

  await t.test('a tenant is removed without harm to the other', async (t) => {
    const second = await openTenant(t, url, 'tenant_b')
    await second.run('drop schema tenant_a cascade')
    t.strictSame(await ensureSchema(second), [])
    const select = `select extnamespace::regnamespace::text as schema from pg_extension where extname = 'pg_trgm'`
    t.strictSame(await second.run(select), [{ schema: 'public' }])
  })

  await t.test('a role that may only use its schema finds its own tables alone', async (t) => {
    const owner = await openTenant(t, url, 'tenant_d')
    const { role, settings } = await createTenantRole(t, owner, url)
    t.match(
      (await runCommand(t, 'doctor --schema tenant_d', settings)).out,
      /failed +rights +The role role_\w+ lacks USAGE on the schema tenant_d\n.*grant usage on schema tenant_d/,
    )
    for (const right of [
      'usage on',
      'select, insert, update, delete on all tables in',
      'usage, select on all sequences in',
    ])
      await owner.run(`grant ${right} schema tenant_d to ${role}`)
    const database = await openDatabase({ url: settings.DATABASE_URL, schema: 'tenant_d' })
    t.teardown(() => database.close())
    const { admin } = await testApp(t, {}, { database })
    t.equal((await admin.get('/users')).status, 200)
    await t.rejects(database.run('select * from tenant_b.users'), { code: '42501' })
    const backup = ['backup', `${testFolder(t)}/backup.gz`]
    t.match(await runCommand(t, backup, { ...settings, DATABASE_SCHEMA: 'tenant_d' }), { code: 0, err: '' })
  })

  await t.test('a role without the right to create schemas migrates the schema that it owns', async (t) => {
    const second = await openTenant(t, url, 'tenant_b')
    const { role, settings } = await createTenantRole(t, second, url)
    await second.run(`create schema tenant_e authorization ${role}`)
    const refused = new RegExp(
      `failed +migrations +\\d+ migrations are pending, and the role ${role} may not create tables\\n.* of the owner`,
    )
    const applied = /All migrations of this release are applied/
    const pending = /ok +migrations +\d+ migrations are pending; the next start/
    const unread = /Let the role read "tenant_b"\./
    for (const [schema, before, migrated, after] of [
      ['tenant_e', pending, { code: 0, err: '' }, applied],
      // It does not exist.
      ['tenant_f', refused, { code: 1, err: /permission denied for database/ }, refused],
      // Another tenant's.
      ['tenant_b', unread, { code: 1, err: /denied for schema tenant_b/ }, unread],
    ] as const) {
      const doctor = async () => (await runCommand(t, ['doctor', '--schema', schema], settings)).out
      t.match(await doctor(), before)
      t.match(await runCommand(t, ['migrate', '--schema', schema], settings), migrated)
      t.match(await doctor(), after)
    }
  })

  await t.test('a pooler that does not pass on the schema is noticed before any statement', async (t) => {
    const pooler = createServer((socket) => {
      const server = connect({ host: shared.hostname, port: Number(shared.port || 5432) })
      socket.once('data', (startup) => {
        server.write(startup.toString('latin1').replace('"tenant"', '"public"'), 'latin1')
        socket.pipe(server).pipe(socket)
      })
      for (const [near, far] of [
        [socket, server],
        [server, socket],
      ] as const)
        near.on('error', () => far.destroy()).on('close', () => far.destroy())
    })
    const pooled = Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(await listen(pooler)) })
    t.teardown(() => pooler.close())
    const message =
      'Connections have the search_path "public" instead of tenant (DATABASE_SCHEMA): the pooler must pass it on or set it'
    await t.rejects(openDatabase({ url: pooled.href, schema: 'tenant' }), new DatabaseUnavailable(message))
  })
})
