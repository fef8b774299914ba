/** `backup`, `restore` and `copy` keep every value of a database, and what depends on it. */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { test } from 'tap'
import { getMigrationTimes, migrate } from '../../database/src/migrate.ts'
import { readConfig } from '../../http/src/config/read-config.ts'
import { testApp } from '../../testing/helpers/app.ts'
import {
  createEmptyDatabase,
  createMigratedDatabase,
  insertDifficultRows,
  openAt,
  readEverything,
  runCommand,
  type Settings,
  withDatabaseAt,
} from '../../testing/helpers/command.ts'
import { getSchema, SERVER, testEmbedded, testFolder, withSchema } from '../../testing/helpers/database.ts'
import { stopEventWork } from '../../testing/helpers/events.ts'
import { withSnapshot } from '../src/backup/transfer.ts'

const SECRET = 'kept-secret-kept-secret-kept-secret-kept'
const PASSWORD = 'a good long secret'

test('a restored database has every value, and its users, keys, cursors, ETags and order numbers go on', async (t) => {
  const source = await createMigratedDatabase(t)
  const first = await testApp(t, {}, { database: await openAt(source) })
  const user = { name: 'Ada', email: 'ada@example.com', password: PASSWORD }
  const { id } = (await first.admin.post('/users', user)).body.data
  const grant = { grant_type: 'password', email: 'ada@example.com', password: PASSWORD }
  const tokens = (await first.anybody.post('/tokens', grant)).body.data
  const { client, key } = await first.person('member')
  const product = { sku: 'TEA-1', name: 'Tea', price_amount: 5, stock: 9, status: 'active' }
  const { id: productId } = (await first.admin.post('/products', product)).body.data
  const order = { items: [{ product_id: productId, quantity: 1 }] }
  const ordered = await client.post('/orders', order)
  t.equal(ordered.status, 201)
  await client.post('/orders', order)
  const page = (await first.admin.get('/users?limit=1')).body.pagination
  const etag = (await first.admin.get(`/users/${id}`)).headers.get('etag')
  await insertDifficultRows(first.database)
  await first.app.events.assignAll()
  await stopEventWork(first.app)
  const before = await readEverything(first.database)
  await first.app.close()

  const file = join(testFolder(t), 'backup.gz')
  const wrote = await runCommand(t, ['backup', file], source)
  t.match(wrote, { code: 0, out: /^Wrote .*backup\.gz: \d+ rows of 19 tables, [\d,]+ kB\n/ })
  t.equal(statSync(file).mode & 0o777, 0o600, 'only its owner can read the file')

  // On the server: once from a server to a server, once from a server to a folder.
  for (const server of SERVER ? [SERVER, undefined] : [undefined]) {
    const target = await createEmptyDatabase(t, server)
    const restored = await runCommand(t, ['restore', file], target)
    t.match(restored, {
      code: 0,
      out: /^Restored \d+ rows from .*\nCompared .* with the file: they are equal\n/,
    })
    t.strictSame(await withDatabaseAt(target, readEverything), before)
    if (server !== SERVER) continue
    const second = await testApp(t, {}, { database: await openAt(target) })
    t.equal((await second.admin.get(`/users/${id}`)).headers.get('etag'), etag)
    const nextPage = await second.admin.get(`/users?limit=1&cursor=${page.cursor}`)
    t.equal(nextPage.status, 200, 'the cursor is valid')
    t.equal((await second.anybody.post('/tokens', grant)).status, 201, 'the password is valid')
    const refresh = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token }
    t.equal((await second.anybody.post('/tokens', refresh)).status, 201, 'the session goes on')
    const next = await second.anybody.post('/orders', order, { 'x-api-key': key })
    t.equal(next.status, 201, 'the API key is valid')
    t.equal(next.body.data.number, 'ORD-0000000004', 'after three numbers')
  }
})

test('a backup names the references that leave it, and --strict refuses it', async (t) => {
  const source = await createMigratedDatabase(t)
  await withDatabaseAt(source, async (database) => {
    await database.run('create schema legacy')
    await database.run('create table legacy.meters (id text primary key)')
    await database.run(
      'alter table posts add meter_id text constraint posts_meter references legacy.meters, add parent_id uuid references posts',
    )
  })
  const folder = testFolder(t)
  const warning = 'posts_meter of the table posts refers to legacy.meters, whose rows are not in the backup'
  const strict = await runCommand(t, ['backup', join(folder, 'strict'), '--strict'], source)
  t.strictSame(strict, { code: 1, out: '', err: `backup failed: --strict: ${warning}\n` })
  t.notOk(existsSync(join(folder, 'strict')))
  const wrote = await runCommand(t, ['backup', join(folder, 'b')], source)
  t.match(wrote, { code: 0, out: /^Wrote / })
  t.equal(wrote.err, `Warning: ${warning}: it cannot be restored without them\n`)
  const { out } = await runCommand(t, ['backup', join(folder, 'c'), '--json'], source)
  t.strictSame(JSON.parse(out).warnings, [warning])
  await withDatabaseAt(source, (database) => database.run('alter table posts drop column meter_id'))
  t.match(await runCommand(t, ['backup', join(folder, 'd'), '--strict'], source), { code: 0, err: '' })
})

test('copy fills an empty PostgreSQL database and says what to set', { skip: !SERVER }, async (t) => {
  const dataDir = testFolder(t)
  const database = await testEmbedded(t, dataDir)
  await insertDifficultRows(database)
  await database.close()
  writeFileSync(join(dataDir, 'app-secret'), `${SECRET}\n`, { mode: 0o600 })
  const target = await createEmptyDatabase(t)
  const args = ['copy', '--to', target.DATABASE_URL ?? '', '--schema', getSchema(target.DATABASE_URL)]
  const copied = await runCommand(t, args, { DATA_DIR: dataDir })
  t.match(copied, {
    code: 0,
    out: /^Copied 4 rows to .*\nCompared the two databases: they are equal\nNext: set /,
  })
  t.match(copied.out, `set APP_SECRET to the content of ${join(dataDir, 'app-secret')}`)
  t.notMatch(copied.out, SECRET)
  t.strictSame(
    await withDatabaseAt(target, readEverything),
    await withDatabaseAt({ DATA_DIR: dataDir }, readEverything),
  )
  const again = await runCommand(t, args, { DATA_DIR: dataDir })
  t.match(again, { code: 1, err: /^copy failed: The database is not empty \(the table users has rows\)/ })
  const wrong = await runCommand(t, ['copy', '--to', 'mysql://u:hunter2@h/d'], { DATA_DIR: dataDir })
  t.equal(wrong.code, 2)
  t.notMatch(wrong.err, /hunter2/)
})

test('a backup has one snapshot: later changes are not in it', { skip: !SERVER }, async (t) => {
  const source = await createMigratedDatabase(t)
  const names = await withDatabaseAt(source, async (database) => {
    const insert = (email: string) =>
      database.run(`insert into users (id, name, email) values (gen_random_uuid(), '', $1)`, [email])
    await insert('before')
    return withSnapshot(readConfig(withSchema(source)), async ({ readRows, tables }) => {
      await insert('after')
      const lines = []
      for await (const batch of readRows()) lines.push(...batch.lines)
      t.match(
        tables.find(({ name }) => name === 'users'),
        { rows: 1 },
      )
      return lines.map((line) => /before|after/.exec(line)?.[0])
    })
  })
  t.same(names, ['before'])
})

test('a backup of an older release is restored into its tables and then migrated', {
  skip: !SERVER,
}, async (t) => {
  const source = await createEmptyDatabase(t)
  const only = new Set(getMigrationTimes().slice(0, 1))
  await withDatabaseAt(source, async (database) => {
    await migrate(database, { only })
    await database.run(`insert into users (id, name, email) values (gen_random_uuid(), '', 'old')`)
    await database.run(
      `insert into idempotency_keys (user_id, id, body_hash, status, etag, body) select id, '', '', 1, '', '' from users`,
    )
  })
  const file = join(testFolder(t), 'backup.gz')
  t.equal((await runCommand(t, ['backup', file], source)).code, 0)
  await withDatabaseAt(source, async (database) => {
    t.equal((await migrate(database, { only })).length, 0)
    t.not((await migrate(database)).length, 0, 'the backup applied no migration')
    await database.run('delete from users')
  })
  const newer = await runCommand(t, ['restore', file], source)
  t.match(newer, { code: 1, err: /newer release than the data: use a database without tables/ })

  const target = await createEmptyDatabase(t)
  t.match(await runCommand(t, ['restore', file], target), { code: 0, out: /^Applied \d+_/m })
  const rows = await withDatabaseAt(target, (database) =>
    database.run('select email, location from users u join idempotency_keys k on k.user_id = u.id'),
  )
  t.same(rows, [{ email: 'old', location: null }])
})

test('the kept secret is included only on request, and restored without replacing another', async (t) => {
  const source = await createMigratedDatabase(t)
  const folder = testFolder(t)
  const withSecret = (file: string, env = source) => runCommand(t, ['backup', file, '--include-secret'], env)
  t.match(await withSecret(join(folder, 'no')), { code: 1, err: /no secret is kept in/ })
  writeFileSync(join(source.DATA_DIR ?? '', 'app-secret'), `${SECRET}\n`, { mode: 0o600 })
  const without = await runCommand(t, ['backup', join(folder, 'without')], source)
  t.match(without.out, /app-secret is not included \(--include-secret includes it\)/)
  t.notMatch(gunzipSync(readFileSync(join(folder, 'without'))).toString(), SECRET)
  const env = { ...source, APP_SECRET: 'other-secret-other-secret-other-secret' }
  const set = await withSecret(join(folder, 'no'), env)
  t.match(set, { code: 1, err: /APP_SECRET is set, which is never included/ })
  t.notOk(existsSync(join(folder, 'no')))

  await withDatabaseAt(source, async (database) => {
    await database.run('create table notes (text text)')
    await database.run(`insert into notes values ('of another program')`)
  })
  const file = join(folder, 'with')
  const included = await withSecret(file)
  t.match(included.out, /app-secret is included: protect the backup/)
  t.notMatch(included.out, SECRET)
  const taken = await runCommand(t, ['backup', file], source)
  t.match(taken, { code: 1, err: /already exists; choose another name/ })
  const checked = await runCommand(t, ['restore', '--check', file])
  t.match(checked.out, /is complete and intact: 1 rows, written .* from an? .*\nThe secret is included\n/)
  t.notMatch(checked.out, SECRET)

  const target = await createMigratedDatabase(t)
  const secretFile = join(target.DATA_DIR ?? '', 'app-secret')
  writeFileSync(secretFile, 'other-secret-other-secret-other-secret', { mode: 0o600 })
  const other = await runCommand(t, ['restore', file], target)
  t.match(other, { code: 1, err: /holds another one: move that file away/ })
  rmSync(secretFile)
  const restored = await runCommand(t, ['restore', file], target)
  t.match(restored, { code: 0, out: /The secret of the backup is kept in .*app-secret\./ })
  t.match(
    restored.out,
    /^Restored 0 rows .*\n.*\nNot restored: notes, which is not a table of this service\n/,
  )
  t.equal(readFileSync(secretFile, 'utf8'), `${SECRET}\n`)
  t.equal(statSync(secretFile).mode & 0o777, 0o600)
})

test('with --json, restore and copy print one object', async (t) => {
  const source = await createMigratedDatabase(t)
  const file = join(testFolder(t), 'backup')
  const read = async (args: string[], settings: Settings) => {
    const { code, out, err } = await runCommand(t, [...args, '--json'], settings)
    t.equal(code, 0, err)
    return JSON.parse(out)
  }
  await withDatabaseAt(source, (database) =>
    database.run(`insert into users (id, name, email) values (gen_random_uuid(), 'Ada', 'ada@example.com')`),
  )
  const { rows } = await read(['backup', file], source)
  t.match(await read(['restore', '--check', file], {}), {
    ...{ file, rows, includes_secret: false, release: String },
    created_at: /Z$/,
  })
  const target = await createMigratedDatabase(t)
  const restored = await read(['restore', file], target)
  t.match(restored, { file, rows, note: /secret/i })
  t.same([restored.skipped, restored.applied], [[], []])
  if (!SERVER) return
  const copied = await createEmptyDatabase(t)
  const { DATABASE_URL = '' } = copied
  const found = await read(['copy', '--to', DATABASE_URL, '--schema', getSchema(DATABASE_URL)], source)
  t.match(found, { rows, schema: getSchema(DATABASE_URL), note: /^Next: set DATABASE_URL/ })
  t.same(found.skipped, [])
  t.notMatch(found.to, '@', 'the address has no password')
})

test('a backup can be written to standard output', async (t) => {
  const env = { PATH: process.env.PATH, ...withSchema(await createMigratedDatabase(t)) }
  const run = promisify(execFile)
  const args = ['dist/src/cli.js', 'backup', '-']
  const { stdout, stderr } = await run(process.execPath, args, { env, encoding: 'buffer' })
  const file = join(testFolder(t), 'backup.gz')
  writeFileSync(file, stdout)
  t.match(stderr.toString(), /^Wrote 0 rows of 19 tables\nNo secret is included/)
  t.equal((await runCommand(t, ['restore', '--check', file])).code, 0)
})

test('without a database there is nothing to back up, and none is created', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'backup.gz')
  const absent = await runCommand(t, ['backup', file], { DATA_DIR: join(folder, 'data') })
  t.match(absent, {
    code: 1,
    err: /^backup failed: There is no database in .*data: set DATA_DIR, or DATABASE_URL/,
  })
  t.notOk(existsSync(join(folder, 'data')))
  if (!SERVER) return
  const empty = await runCommand(t, ['backup', file], await createEmptyDatabase(t))
  t.match(empty, { code: 1, err: /The database has no tables of this service/ })
  t.notOk(existsSync(file))
})
