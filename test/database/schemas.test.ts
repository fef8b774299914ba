/** DATABASE_SCHEMA: services with schemas of their own share a database, and none sees anything of another. */
import { connect, createServer } from 'node:net'
import t from 'tap'
import { type Database, DatabaseUnavailable, openDatabase } from '../../drizzle/client/index.ts'
import { readAppliedMigrations } from '../../drizzle/migrate.ts'
import { ensureSchema } from '../../drizzle/schema-check.ts'
import { testApp } from '../helpers/app.ts'
import { runCommand } from '../helpers/command.ts'
import { CITUS, createDatabase, type Owner, SERVER, testFolder } from '../helpers/database.ts'
import { listen } from '../helpers/network.ts'
import { waitUntil } from '../helpers/time.ts'

/** The address of an empty database that tenants share. */
const createShared = async (t: Owner) => {
  const url = new URL(await createDatabase(t, SERVER ?? ''))
  url.searchParams.delete('schema')
  return url.href
}

const APP_SECRET = 'kept-secret-kept-secret-kept-secret-kept'

/** Runs `migrate --schema` and opens the tables of that schema. */
async function openTenant(t: Parameters<typeof runCommand>[0] & Owner, url: string, schema: string) {
  const { code, err } = await runCommand(t, ['migrate', '--schema', schema], {
    DATABASE_URL: url,
    DATA_DIR: testFolder(t),
  })
  if (code !== 0) throw new Error(err)
  const database = await openDatabase({ url, schema })
  t.teardown(() => database.close())
  return database
}

/** Creates a role without rights, and returns the settings of a service that uses it. */
async function createRole(t: Owner, admin: Database, url: string) {
  const role = `role_${Date.now()}`
  await admin.run(`create role ${role} login`)
  t.teardown(async () => {
    await admin.run(`drop owned by ${role} cascade`)
    await admin.run(`drop role ${role}`)
  })
  const as = new URL(url)
  as.username = role
  return { role, settings: { DATABASE_URL: as.href, DATA_DIR: testFolder(t), APP_SECRET } }
}

const readTables = async (database: Database, schema: string) => {
  const rows = await database.run(
    'select tablename::text as name from pg_tables where schemaname = $1 order by 1',
    [schema],
  )
  return rows.map(({ name }) => name)
}

t.test('an embedded database has its tables in the schema, and nothing in another', async (t) => {
  const dataDir = testFolder(t)
  const settings = { DATA_DIR: dataDir, DATABASE_SCHEMA: 'tenant_a', APP_SECRET }
  t.equal((await runCommand(t, 'migrate', settings)).code, 0)
  const database = await openDatabase({ dataDir, schema: 'tenant_a' })
  t.ok((await readTables(database, 'tenant_a')).includes('users'))
  for (const schema of ['public', 'drizzle']) t.strictSame(await readTables(database, schema), [])
  const { admin } = await testApp(t, {}, { database })
  t.equal((await admin.post('/products', { sku: 'A', name: 'Tea', price_amount: 1 })).status, 201)
  await database.close()
  t.equal((await runCommand(t, 'migrate', settings)).out, 'The database is up to date\n')

  const file = `${testFolder(t)}/backup.gz`
  t.match(await runCommand(t, ['backup', file], settings), { code: 0, err: '' })
  const restored = testFolder(t)
  const other = { DATA_DIR: restored, DATABASE_SCHEMA: 'public', APP_SECRET }
  t.match(await runCommand(t, ['restore', file], other), { code: 0, err: '' })
  const copy = await openDatabase({ dataDir: restored })
  t.teardown(() => copy.close())
  t.strictSame(await copy.run('select sku from products'), [{ sku: 'A' }], 'a backup fits another schema')
})

for (const name of ['Tenant', 'pg_tenant', 'a-b', 'information_schema', 'drizzle', 'a'.repeat(64), '1a']) {
  t.test(`${name.slice(0, 20)} is not the name of a schema`, async (t) => {
    const { code, err } = await runCommand(t, ['migrate', '--schema', name], { DATA_DIR: testFolder(t) })
    t.equal(code, 1)
    t.match(err, /DATABASE_SCHEMA .*a lower-case letter/)
  })
}

t.test(
  'on a server',
  { skip: SERVER && !CITUS ? false : 'set DATABASE_URL to a PostgreSQL server' },
  async (t) => {
    const url = await createShared(t)

    await t.test('tenants share a database and see nothing of each other', async (t) => {
      const [first, second] = [await openTenant(t, url, 'tenant_a'), await openTenant(t, url, 'tenant_b')]
      const { app, admin } = await testApp(t, {}, { database: first })
      const product = { sku: 'SAME', name: 'Tea', price_amount: 1, stock: 5, status: 'active' }
      const created = await admin.post('/products', product)
      t.equal(created.status, 201)
      const other = await testApp(
        t,
        { ADMIN_API_KEY: 'another-key-another-key-another-key' },
        { database: second },
      )
      const { client } = await other.person('admin')
      t.equal((await client.get(`/products/${created.body.data.id}`)).status, 404)
      t.equal((await client.post('/products', product)).status, 201, 'the same sku')
      const items = [{ product_id: created.body.data.id, quantity: 1 }]
      t.equal((await admin.post('/orders', { items })).status, 201)
      t.match((await client.get('/orders?page=1')).body.pagination, { total: 0 })
      await app.events.assignAll()
      t.strictSame(
        await second.run(
          `select 1 from outbox where type like 'orders%' union all select 1 from events where type like 'orders%'`,
        ),
        [],
      )
      t.strictSame(await ensureSchema(first), [])
      const applied = await readAppliedMigrations(first, 'tenant_a')
      t.strictSame(await readAppliedMigrations(second, 'tenant_b'), applied)
      t.strictSame(await readTables(first, 'public'), [])
    })

    await t.test('the removal of an admin does not wait for that of another tenant', async (t) => {
      const [first, second] = [await openTenant(t, url, 'tenant_a'), await openTenant(t, url, 'tenant_b')]
      const apis = [await testApp(t, {}, { database: first }), await testApp(t, {}, { database: second })]
      const [removeFirst, removeSecond] = await Promise.all(
        apis.map(async ({ admin, person }) => {
          const { id } = await person('admin')
          return () => admin.patch(`/users/${id}`, { role: 'member' })
        }),
      )
      let waiting: Promise<unknown> = Promise.resolve()
      await first.transaction(async (tx) => {
        await tx.run('lock table outbox in share mode')
        waiting = removeFirst?.().then(() => 'the other one') ?? waiting
        const isLocked = `select 1 from pg_locks where locktype = 'advisory' and granted`
        await waitUntil(async () => (await second.run(isLocked)).length > 0)
        const removed = removeSecond?.().then(({ status }) => status)
        t.equal(await Promise.race([waiting, removed]), 200)
      })
      await waiting
    })

    await t.test('a tenant is removed without harm to the other', async (t) => {
      const database = await openTenant(t, url, 'tenant_b')
      await database.run('drop schema tenant_a cascade')
      t.strictSame(await ensureSchema(database), [])
      t.strictSame(
        await database.run(
          `select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'`,
        ),
        [{ schema: 'public' }],
      )
    })

    await t.test('a role that may only use its schema finds its own tables alone', async (t) => {
      const owner = await openTenant(t, url, 'tenant_d')
      const { role, settings } = await createRole(t, owner, url)
      t.match(
        (await runCommand(t, 'doctor --schema tenant_d', settings)).out,
        /failed +rights +The role role_\d+ lacks USAGE on the schema tenant_d\n.*grant usage on schema tenant_d/,
      )
      await owner.run(`grant usage on schema tenant_d to ${role}`)
      await owner.run(`grant select, insert, update, delete on all tables in schema tenant_d to ${role}`)
      await owner.run(`grant usage, select on all sequences in schema tenant_d to ${role}`)
      const database = await openDatabase({ url: settings.DATABASE_URL, schema: 'tenant_d' })
      t.teardown(() => database.close())
      const { admin } = await testApp(t, {}, { database })
      t.equal((await admin.get('/users')).status, 200)
      await t.rejects(database.run('select * from tenant_b.users'), { code: '42501' })
      t.match(
        await runCommand(t, ['backup', `${testFolder(t)}/backup.gz`], {
          ...settings,
          DATABASE_SCHEMA: 'tenant_d',
        }),
        { code: 0, err: '' },
      )
    })

    await t.test('a role without the right to create schemas migrates the schema that it owns', async (t) => {
      const admin = await openTenant(t, url, 'tenant_b')
      const { role, settings } = await createRole(t, admin, url)
      await admin.run(`create schema tenant_e authorization ${role}`)
      const doctor = async (schema: string) =>
        (await runCommand(t, ['doctor', '--schema', schema], settings)).out
      t.match(
        await doctor('tenant_e'),
        /ok +migrations +\d+ migrations are pending; the next start applies them/,
      )
      t.match(await runCommand(t, 'migrate --schema tenant_e', settings), { code: 0, err: '' })
      t.match(await doctor('tenant_e'), /All migrations of this release are applied/)

      const refused = new RegExp(
        `failed +migrations +\\d+ migrations are pending, and the role ${role} may not create tables\\n.* of the owner of the schema tenant_f`,
      )
      t.match(await doctor('tenant_f'), refused, 'a schema that does not exist')
      t.match(await runCommand(t, 'migrate --schema tenant_f', settings), {
        code: 1,
        err: /permission denied for database/,
      })
      t.match(
        await doctor('tenant_b'),
        /Let the role read "tenant_b"\.__drizzle_migrations/,
        'another tenant',
      )
      t.match(await runCommand(t, 'migrate --schema tenant_b', settings), {
        code: 1,
        err: /permission denied for schema tenant_b/,
      })
    })

    await t.test('a pooler that does not pass on the schema is noticed before any statement', async (t) => {
      const target = new URL(url)
      const pooler = createServer((socket) => {
        const server = connect({ host: target.hostname, port: Number(target.port || 5432) })
        let isFirst = true
        socket.on('data', (chunk) => {
          const text = chunk.toString('latin1')
          server.write(isFirst ? Buffer.from(text.replace('"tenant"', '"public"'), 'latin1') : chunk)
          isFirst = false
        })
        server.pipe(socket)
        socket.on('error', () => server.destroy()).on('close', () => server.destroy())
        server.on('error', () => socket.destroy()).on('close', () => socket.destroy())
      })
      const pooled = new URL(url)
      pooled.hostname = '127.0.0.1'
      pooled.port = String(await listen(pooler))
      t.teardown(() => pooler.close())
      await t.rejects(
        openDatabase({ url: pooled.href, schema: 'tenant' }),
        new DatabaseUnavailable(
          'Connections have the search_path "public" instead of tenant (DATABASE_SCHEMA): the pooler must pass it on or set it',
        ),
      )
    })
  },
)
