/** `doctor` finds what is wrong with an installation, says what to do, prints no secret and changes nothing. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { DEFAULT_SCHEMA } from '../../database/src/client/schema.ts'
import { runCommand } from '../../testing/helpers/command.ts'
import {
  createDatabase,
  createFakeStandby,
  createRole,
  getSchema,
  openDatabase,
  SERVER,
  skipStandby,
  testDatabaseUrl,
  testFolder,
} from '../../testing/helpers/database.ts'
import { createCertificate } from '../../testing/helpers/network.ts'
import type { Finding } from '../src/doctor/finding.ts'

const SECRET = 'a-secret-of-more-than-thirty-two-characters'

/** Runs `doctor --json`, and checks what holds for every result. */
async function diagnose(t: Test, settings: NodeJS.ProcessEnv) {
  const { code, out, err } = await runCommand(t, 'doctor --json', settings)
  const findings: Finding[] = JSON.parse(out)
  const failed = findings.filter(({ status }) => status === 'failed').length
  t.equal(code, failed > 0 ? 1 : 0, 'only a failed check is a failure')
  t.equal(err, failed > 0 ? `doctor failed: ${failed} of ${findings.length} checks failed\n` : '')
  for (const { status, advice } of findings)
    t.equal(advice === undefined, status === 'ok', 'advice for problems only')
  t.notMatch(out + err, SECRET)
  const get = (check: string) => findings.filter((finding) => finding.check === check)
  return { code, findings, get }
}

/** Settings with a migrated database and an admin. */
async function createSettings(t: Test) {
  const { url, dataDir = testFolder(t) } = await testDatabaseUrl(t)
  const place = url === undefined ? { dataDir } : { url }
  const execute = async (...statements: string[]) => {
    const database = await openDatabase(place)
    for (const statement of statements) await database.run(statement)
    await database.close()
  }
  await execute(
    `insert into users (id, name, email, role) values (gen_random_uuid(), 'A', 'a@example.com', 'admin')`,
  )
  return {
    settings: { APP_SECRET: SECRET, DATA_DIR: dataDir, ...(url && { DATABASE_URL: url }) },
    execute,
    dataDir,
  }
}

const summarize = (findings: readonly Finding[]) => findings.map(({ check, status }) => `${check} ${status}`)

test('doctor', async (t) => {
  const { settings, execute, dataDir } = await createSettings(t)

  await t.test('all checks of a healthy installation are ok', async (t) => {
    const files = readdirSync(dataDir)
    const { findings, get } = await diagnose(t, settings)
    const checks = ['Node.js', 'settings', 'database', 'rights', 'pg_trgm', 'migrations', 'schema', 'backup']
    const made = [...checks, ...(SERVER ? ['clock'] : []), 'disk', 'admin', 'secret']
    t.strictSame(
      summarize(findings),
      made.map((check) => `${check} ok`),
    )
    t.match(get('database'), [{ message: SERVER ? /^PostgreSQL \d+.* answers in [\d.]+ ms$/ : dataDir }])
    t.match(get('admin'), [{ message: 'There is an active admin' }])
    t.strictSame(readdirSync(dataDir), files, 'no file is created')
    const table = await runCommand(t, 'doctor', settings)
    t.match(table, { code: 0, err: '' })
    t.match(table.out, /^ok {7}schema {6}The database has all tables/m)
  })

  await t.test('a reference that leaves the backups is a warning', async (t) => {
    await execute(
      'create schema legacy',
      'create table legacy.meters (id text primary key)',
      'alter table posts add meter_id text constraint posts_meter references legacy.meters',
    )
    const { get } = await diagnose(t, settings)
    t.match(get('backup'), [
      { status: 'warning', message: /: posts_meter of the table posts refers to legacy\.meters$/ },
    ])
    await execute('alter table posts drop column meter_id', 'drop schema legacy cascade')
  })

  await t.test('a missing column fails, and no active admin is a warning', async (t) => {
    await execute('alter table products drop column stock', `update users set status = 'inactive'`)
    const { get } = await diagnose(t, settings)
    t.match(get('schema'), [{ status: 'failed', message: 'lacks the column stock' }])
    t.match(get('admin'), [{ status: 'warning', advice: /users set-role EMAIL --role admin/ }])
    const { out } = await runCommand(t, 'doctor', settings)
    t.match(out, /^failed {3}schema {6}The table products lacks the column stock.*\n {21}All migrations are/m)
  })
})

test('doctor reports all invalid settings', async (t) => {
  const { get } = await diagnose(t, { PORT: 'x', METRICS_TOKEN: 'short' })
  t.match(get('settings'), [
    { status: 'failed', message: /^PORT/ },
    { status: 'failed', message: /^METRICS_TOKEN/ },
  ])
})

test('doctor checks secrets and the certificate', async (t) => {
  const folder = testFolder(t)
  const absent = join(folder, 'data')
  const fresh = await diagnose(t, { DATA_DIR: absent })
  t.match(fresh.get('database'), [{ status: 'ok', message: 'no database in' }])
  t.match(fresh.get('secret'), [{ status: 'ok', message: 'the first start generates a secret' }])
  t.strictSame(readdirSync(folder), [], 'and creates no folder')

  writeFileSync(join(folder, 'app-secret'), SECRET, { mode: 0o644 })
  writeFileSync(join(folder, 'first-credentials'), SECRET, { mode: 0o600 })
  const certificate = createCertificate(folder)
  const { get } = await diagnose(t, { DATA_DIR: folder, ...certificate })
  t.match(get('secret'), [
    { status: 'failed', message: 'Other users of this machine can read', advice: /^Run: chmod 600 / },
    { status: 'warning', message: 'first-credentials still has' },
  ])
  t.match(get('TLS'), [{ status: 'ok', message: /valid for another (29|30) days/ }])
  const now = Date.now()
  for (const [days, status, message] of [
    [20, 'warning', 'expires on'],
    [31, 'failed', 'expired on'],
    [-1, 'failed', 'not valid before'],
  ] as const) {
    const clock = t.intercept(Date, 'now', { value: () => now + days * 86_400_000 })
    t.match((await diagnose(t, { DATA_DIR: folder, ...certificate })).get('TLS'), [{ status, message }])
    clock.restore()
  }
})

test('doctor reports services that cannot be reached, without their passwords', async (t) => {
  const address = `unknown:${SECRET}@127.0.0.1:1`
  const { get } = await diagnose(t, {
    DATABASE_URL: `postgres://${address}/there`,
    REDIS_URL: `redis://${address}`,
    DATA_DIR: testFolder(t),
  })
  t.match(get('database'), [{ status: 'failed', message: '127.0.0.1:1/there cannot be used: ' }])
  t.match(get('redis'), [{ status: 'failed', message: /^127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED/ }])
})

test('doctor reports pending migrations and applies none', async (t) => {
  const dataDir = testFolder(t)
  const place = SERVER ? { url: await createDatabase(t, SERVER) } : { dataDir }
  // Creates an embedded database without tables.
  await (await openDatabase(place)).close()
  const { findings, get } = await diagnose(t, {
    DATA_DIR: dataDir,
    APP_SECRET: SECRET,
    ...(place.url && { DATABASE_URL: place.url }),
  })
  t.match(get('migrations'), [{ status: 'ok', message: /^\d+ migrations are pending/ }])
  t.match(get('pg_trgm'), [{ status: 'ok', message: 'the first migration creates it' }])
  t.strictSame(get('schema'), [], 'its tables are not those of this release yet')
  t.notOk(findings.some(({ status }) => status !== 'ok'))
  const database = await openDatabase(place)
  t.teardown(() => database.close())
  const tables = `select 1 from pg_class where relname in ('users', '__drizzle_migrations')`
  t.strictSame(await database.run(tables), [])
})

test('doctor says that a running process uses the embedded database', async (t) => {
  const dataDir = testFolder(t)
  const database = await openDatabase({ dataDir })
  t.teardown(() => database.close())
  const { code, get, findings } = await diagnose(t, { DATA_DIR: dataDir, APP_SECRET: SECRET })
  t.equal(code, 0)
  t.match(get('database'), [{ status: 'warning', message: 'in use by another process' }])
  t.match(summarize(findings).slice(3), ['disk ok', 'secret ok'])
})

const skip = SERVER ? false : 'set DATABASE_URL to a PostgreSQL server to run these'

test('doctor checks rights, clocks and replicas of a server', { skip }, async (t) => {
  const { settings } = await createSettings(t)
  const url = new URL(settings.DATABASE_URL ?? '')

  const now = Date.now
  for (const [difference, status] of [
    [10_000, 'warning'],
    [-60_000, 'failed'],
  ] as const) {
    const clock = t.intercept(Date, 'now', { value: () => now() + difference })
    const message = /differ by (9|10|59|60)\.\d s$/
    t.match((await diagnose(t, settings)).get('clock'), [{ status, message }])
    clock.restore()
  }

  const schema = getSchema(url.href)
  // A fake standby needs the default schema.
  const standbys = schema === DEFAULT_SCHEMA ? [await createFakeStandby(t, url.href)] : []
  const replicas = [
    ...standbys.map((standby) => standby.url),
    url.href,
    `postgres://unknown:${SECRET}@127.0.0.1:1/there`,
  ]
  const { get } = await diagnose(t, { ...settings, DATABASE_REPLICA_URLS: replicas.join(',') })
  t.match(get('replica'), [
    ...standbys.map(() => ({ status: 'ok' })),
    { status: 'failed', message: 'is not a standby' },
    { status: 'failed', message: '127.0.0.1:1/there cannot be used: ' },
  ])

  const owner = await openDatabase({ url: url.href })
  t.teardown(() => owner.close())
  const rights = [`usage on schema ${schema}`, `select on all tables in schema ${schema}`]
  const role = await createRole(t, owner, ...rights)
  const DATABASE_URL = Object.assign(new URL(url), { username: role }).href
  // Without the position of the primary, no replica can be compared with it.
  await owner.run('revoke execute on function pg_current_wal_insert_lsn() from public')
  const limited = await diagnose(t, { ...settings, DATABASE_URL, DATABASE_REPLICA_URLS: url.href })
  t.match(limited.get('replica'), [{ status: 'warning', message: /was not measured within 5 s$/ }])
  const advice = new RegExp(`grant select, .* to "${role}"$`)
  t.match(limited.get('rights'), [{ status: 'failed', message: /lacks .*INSERT on users/, advice }])
  if (schema !== DEFAULT_SCHEMA) return
  t.match(limited.get('migrations'), [{ status: 'failed', message: /permission denied for schema drizzle/ }])
  t.same(limited.get('schema'), [], 'it is not known whether migrations are pending')
})

test('doctor warns of a replica that replays too late', { skip: skipStandby }, async (t) => {
  const { settings, execute } = await createSettings(t)
  const standby = await createFakeStandby(t, settings.DATABASE_URL ?? '')
  await standby.freeze()
  await execute(`update users set name = 'B'`)
  const replicas = { DATABASE_REPLICA_URLS: standby.url, REPLICA_LAG: '1' }
  const stale = await diagnose(t, { ...settings, ...replicas })
  const advice = /^It gets no reads while it is more than REPLICA_LAG \(1 s\) behind\.$/
  t.match(stale.get('replica'), [{ status: 'warning', message: / is behind$/, advice }])
  t.equal(stale.code, 0)
  await standby.thaw()
  t.match((await diagnose(t, { ...settings, ...replicas })).get('replica'), [{ status: 'ok' }])
})
