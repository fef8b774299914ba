/** The first start creates the first admin and an API key, once, and shows them safely. */
import { readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { verify } from '@node-rs/argon2'
import t, { type Test } from 'tap'
import { buildApp } from '../../../../src/app.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, createClient, testApp } from '../../../testing/helpers/app.ts'
import {
  keepOpen,
  SERVER,
  testDatabase,
  testDatabaseUrl,
  testFolder,
} from '../../../testing/helpers/database.ts'
import { bootstrap } from '../../src/auth/bootstrap.ts'
import { isKey } from '../../src/auth/key-format.ts'
import { createFirstAdmin } from '../../src/first-admin.ts'

const PASSWORD = 'correct horse battery'
const nothingNamed = { email: 'Root@Example.com', password: undefined, hasKey: false, canGenerate: true }

const rowsOf = async (database: Database) => ({
  users: await database.run('select name, email, role, status, password_hash, search from users'),
  keys: await database.run('select name, prefix, key_hash, scopes from api_keys'),
})

/** Puts the tables back as they were before any user. */
const empty = (database: Database) => database.run('delete from users')

const database = await testDatabase(t)
t.beforeEach(() => empty(database))

t.test('the first admin of an empty database', async (t) => {
  t.test('without settings an admin and a key are generated once', async (t) => {
    const { credentials: made } = await bootstrap(database, nothingNamed)
    if (!made) throw new Error('nothing was made')
    t.equal(made.email, 'root@example.com', 'the address is kept in lower case, as every other')
    t.ok(isKey(made.key))
    t.ok(made.password.length >= 12)
    const { users, keys } = await rowsOf(database)
    t.match(users, [{ email: made.email, role: 'admin', status: 'active', search: /root@example\.com/ }])
    t.match(users[0]?.password_hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    t.ok(await verify(String(users[0]?.password_hash), made.password))
    t.equal(keys.length, 1)
    t.notMatch(JSON.stringify(keys), made.key, "the key's text is not stored")
    t.ok(made.key.startsWith(String(keys[0]?.prefix)))
    t.strictSame(await bootstrap(database, nothingNamed), { hadUsers: true, hasActiveAdmin: true })
    t.equal((await rowsOf(database)).users.length, 1)
  })

  t.test('configured credentials are used and not printed', async (t) => {
    const result = await bootstrap(database, { ...nothingNamed, password: PASSWORD })
    t.strictSame(result, { hadUsers: false, hasActiveAdmin: true })
    const { users, keys } = await rowsOf(database)
    t.ok(await verify(String(users[0]?.password_hash), PASSWORD))
    t.same(keys, [])
    await empty(database)
    t.equal((await bootstrap(database, { ...nothingNamed, hasKey: true })).credentials, undefined)
    const named = await rowsOf(database)
    t.match(named.users, [{ role: 'admin', password_hash: null }])
    t.same(named.keys, [], 'ADMIN_API_KEY is matched in memory and stored nowhere')
  })

  t.test('in production nothing is generated', async (t) => {
    const result = await bootstrap(database, { ...nothingNamed, canGenerate: false })
    t.strictSame(result, { hadUsers: false, hasActiveAdmin: false })
    t.same((await rowsOf(database)).users, [])
    await bootstrap(database, { ...nothingNamed, canGenerate: false, password: PASSWORD })
    t.equal((await rowsOf(database)).users.length, 1)
  })

  t.test('with an existing user no admin is created', async (t) => {
    await database.run(
      `insert into users (id, name, email) values (gen_random_uuid(), 'A', 'somebody@example.com')`,
    )
    const result = await bootstrap(database, { ...nothingNamed, password: PASSWORD })
    t.strictSame(result, { hadUsers: true, hasActiveAdmin: false })
    t.equal((await rowsOf(database)).users.length, 1)
  })

  t.test('credentials that could not be shown are not generated', async (t) => {
    const failing = bootstrap(database, nothingNamed, async () => {
      throw new Error('The disk is full')
    })
    await t.rejects(failing, { message: 'The disk is full' })
    t.same(await rowsOf(database), { users: [], keys: [] })
    t.ok((await bootstrap(database, nothingNamed)).credentials, 'so that the next start can')
  })
})

/** The whole service, as a process would start it. */
async function start(t: Test, settings: Record<string, string>, parts = {}) {
  const app = await buildApp(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent', ...settings }), parts)
  t.teardown(() => app.close())
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  return (key: string) => createClient(base, { 'x-api-key': key })
}

const skip = SERVER ? false : 'one embedded database serves one process: set DATABASE_URL'

t.test('two services that start together create one admin, and both serve', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const folders = [testFolder(t), testFolder(t)]
  const clients = await Promise.all(
    folders.map((DATA_DIR) => start(t, { DATA_DIR, DATABASE_URL: url, APP_SECRET })),
  )
  const files = await Promise.allSettled(
    folders.map((folder) => readFile(join(folder, 'first-credentials'), 'utf8')),
  )
  const written = files.flatMap((file) => (file.status === 'fulfilled' ? [file.value] : []))
  t.equal(written.length, 1, 'one of them shows the key')
  const key = /export KEY=(\S+)/.exec(written[0] ?? '')?.[1] ?? ''
  for (const client of clients)
    t.match(await client(key).get('/users?page=1'), { status: 200, body: { pagination: { total: 1 } } })
})

t.test('without a terminal the key is written to a file that only its owner can read', async (t) => {
  const dataDir = testFolder(t)
  const client = await start(t, { DATA_DIR: dataDir }, { database: keepOpen(database) })
  const file = join(dataDir, 'first-credentials')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const key = /export KEY=(\S+)/.exec(await readFile(file, 'utf8'))?.[1] ?? ''
  t.match((await client(key).get('/users/me')).body.data, { role: 'admin', email: 'admin@example.com' })
})

t.test('a start warns without an active admin, and of settings that have no effect', async (t) => {
  const settings = { NODE_ENV: 'test', DATA_DIR: testFolder(t), ADMIN_PASSWORD: PASSWORD }
  const run = (more: Record<string, string> = {}) =>
    createFirstAdmin(readConfig({ ...settings, ...more }), database)
  t.strictSame(await run(), [], 'the setting has been used')
  const ignored =
    /^ADMIN_PASSWORD is ignored, because the database has users\. Remove it .*users set-password/
  t.match(await run(), [ignored])
  t.match(await run({ ADMIN_EMAIL: 'root@example.com' }), [/^ADMIN_PASSWORD and ADMIN_EMAIL are ignored/])
  t.match(
    await run({ ADMIN_EMAIL: 'root@example.com', ADMIN_API_KEY: ADMIN_KEY }),
    [ignored],
    'the key belongs to the admin with ADMIN_EMAIL',
  )
  t.strictSame(await run({ ADMIN_PASSWORD: '' }), [])

  const noAdmin =
    /^The database has no active admin, .*users set-role EMAIL --role admin.*users create --role admin/
  for (const change of [`status = 'suspended'`, `status = 'active', role = 'manager'`]) {
    await database.run(`update users set ${change}`)
    t.match(await run({ ADMIN_PASSWORD: '' }), [noAdmin], change)
  }
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(JSON.parse(line).msg) }
  await start(
    t,
    { ...settings, LOG_LEVEL: 'warn', ADMIN_PASSWORD: '' },
    { database: keepOpen(database), logs },
  )
  t.match(lines, [noAdmin], 'the log has it')
  await empty(database)
  const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true', APP_SECRET, ADMIN_PASSWORD: '' }
  t.match(await run(production), [/^The database has no active admin, .*Set ADMIN_PASSWORD or ADMIN_API_KEY/])
})

t.test('the file of the first credentials is never an existing file or link', async (t) => {
  const [dataDir, elsewhere] = [testFolder(t), testFolder(t)]
  const config = readConfig({ NODE_ENV: 'test', DATA_DIR: dataDir })
  const file = join(dataDir, 'first-credentials')
  const existing = join(elsewhere, 'existing')
  await writeFile(existing, 'kept')
  const message = `Cannot write the first credentials: ${file} already exists. No user was created; move or delete that file and start again`
  for (const [name, prepare] of [
    ['a link to a file', () => symlink(existing, file)],
    ['a dangling link', () => symlink(join(elsewhere, 'missing'), file)],
    ['a file that others can read', () => writeFile(file, 'earlier', { mode: 0o644 })],
  ] as const) {
    await rm(file, { force: true })
    await prepare()
    await t.rejects(createFirstAdmin(config, database), { message }, name)
    t.same(await rowsOf(database), { users: [], keys: [] }, name)
    t.same(await readdir(elsewhere), ['existing'], name)
    t.equal(await readFile(existing, 'utf8'), 'kept', name)
  }
  t.equal(await readFile(file, 'utf8'), 'earlier')

  await rm(file)
  await createFirstAdmin(config, database)
  t.equal((await rowsOf(database)).users.length, 1, 'once it is removed, the first user is created')
  t.equal((await stat(file)).mode & 0o777, 0o600)
})

t.test('ADMIN_API_KEY is an API key of the admin, stored nowhere and compared as a whole', async (t) => {
  const { admin, adminId, base, person } = await testApp(
    t,
    { ADMIN_EMAIL: 'Root@Example.com' },
    { database: keepOpen(database) },
  )
  const me = { id: adminId, role: 'admin', email: 'root@example.com' }
  t.match((await admin.get('/users/me')).body.data, me)
  for (const path of ['/users', '/user-profiles', '/products', '/orders'])
    t.equal((await admin.get(path)).status, 200)
  t.same(await database.run('select 1 from api_keys'), [])
  for (const key of [`${ADMIN_KEY}x`, ADMIN_KEY.slice(1), ADMIN_KEY.toUpperCase()])
    t.equal((await createClient(base, { 'x-api-key': key }).get('/users/me')).status, 401)
  const other = await person('admin')
  for (const [status, expected] of [
    ['suspended', 401],
    ['inactive', 401],
    ['active', 200],
  ] as const) {
    await other.client.patch(`/users/${adminId}`, { status })
    t.equal((await admin.get('/users/me')).status, expected, status)
  }
})
