/** The service does not depend on what settings of the database and the role make PostgreSQL print, parse and assume. */
import { join } from 'node:path'
import t from 'tap'
import { buildApp } from '../../../src/app.ts'
import { readConfig } from '../../http/src/config/read-config.ts'
import { ADMIN_KEY, APP_SECRET, createClient } from '../../testing/helpers/app.ts'
import {
  createEmptyDatabase,
  readEverything,
  runCommand,
  withDatabaseAt,
} from '../../testing/helpers/command.ts'
import { getSchema, SERVER, testFolder } from '../../testing/helpers/database.ts'
import { createKeyHeader, isReplayed } from '../../testing/helpers/replies.ts'

/** Each differs from the default. Those that only a superuser may set are not among what a connection can ask for. */
const SETTINGS = `
  array_nulls=off; backslash_quote=on; bytea_output=escape; check_function_bodies=off; client_encoding=LATIN1;
  client_min_messages=debug1; DateStyle=SQL, DMY; default_transaction_deferrable=on;
  default_transaction_isolation=serializable; escape_string_warning=off; extra_float_digits=-15;
  idle_in_transaction_session_timeout=1; IntervalStyle=iso_8601; lc_messages=C; lc_monetary=C; lc_numeric=C;
  lc_time=C; max_parallel_workers_per_gather=4; parallel_setup_cost=0; plan_cache_mode=force_generic_plan;
  quote_all_identifiers=on; row_security=off; standard_conforming_strings=off; statement_timeout=1;
  TimeZone=Pacific/Kiritimati; transform_null_equals=on; xmlbinary=hex; xmloption=document
`

/** Values that are printed or parsed by these settings, and what a client gets of them. */
const VALUES: readonly [sql: string, value: unknown][] = [
  [`'\\xff00'::bytea::text`, '\\xff00'],
  ['0.1::float8 + 0.2::float8', 0.30000000000000004],
  [`'{null}'::text[]`, [null]],
  [String.raw`'a\d'::text`, String.raw`a\d`],
  [`'2026-12-01 09:30+00'::timestamptz`, '2026-12-01 09:30:00+00'],
  [`'2026-12-01'::date`, '2026-12-01'],
  [`'1 day 02:00'::interval::text`, '1 day 02:00:00'],
  [`'é€'::text`, 'é€'],
  [`current_setting('transaction_isolation')`, 'read committed'],
  [`current_setting('statement_timeout')`, '5s'],
  [`current_setting('max_parallel_workers_per_gather')`, '0'],
]

const skip = SERVER ? false : 'nothing changes the settings of an embedded database: set DATABASE_URL'

t.test('a service starts, reads, writes and is backed up whatever the settings', { skip }, async (t) => {
  const place = await createEmptyDatabase(t)
  const name = new URL(place.DATABASE_URL ?? '').pathname.slice(1)
  const schema = getSchema(place.DATABASE_URL)
  await withDatabaseAt(place, async (database) => {
    for (const [, setting, value] of SETTINGS.matchAll(/(\w+)=([^;\n]+)/g))
      await database.run(`alter database "${name}" set ${setting} = '${value}'`)
  })
  await withDatabaseAt(place, async (database) => {
    for (const [sql, value] of VALUES)
      t.same((await database.run(`select ${sql} as value`))[0]?.value, value, sql)
  })

  const settings = { ...place, APP_SECRET, ADMIN_API_KEY: ADMIN_KEY, NODE_ENV: 'test', LOG_LEVEL: 'silent' }
  const app = await buildApp(readConfig({ ...settings, DATABASE_SCHEMA: schema }))
  const admin = createClient(await app.listen({ port: 0, host: '127.0.0.1' }), { 'x-api-key': ADMIN_KEY })
  const email = 'ada@example.com'
  const { status, body } = await admin.post('/users', { name: String.raw`Ada "\é€"`, email })
  t.match([status, body.data], [201, { name: String.raw`Ada "\é€"` }])
  const path = `/users/${body.data.id}`
  const header = createKeyHeader()
  const changed = await admin.patch(path, { name: 'Grace' }, header)
  t.equal(changed.status, 200)
  t.ok(isReplayed(await admin.patch(path, { name: 'Grace' }, header)))
  t.match((await admin.get(path)).body.data, { name: 'Grace', updated_at: changed.body.data.updated_at })
  const rows = ['Bea', 'Cleo'].map((each) => ({ name: each, email: `${each}@example.com` }))
  const operations = rows.map((each) => ({ method: 'POST', path: '/users', body: each }))
  t.equal((await admin.post('/batches', { operations })).status, 200)
  const created = encodeURIComponent(body.data.created_at)
  for (const [query, length] of [
    ...([
      ['search=grace', 1],
      ['email_prefix=ada', 1],
      ['role=member&page=1', 3],
    ] as const),
    [`created_after=${created}`, 3],
  ] as const)
    t.match(await admin.get(`/users?${query}`), { status: 200, body: { data: { length } } }, query)
  t.equal((await admin.post(`${path}/posts`, { title: 'a', body: 'b' })).status, 201)
  await app.events.assignAll()
  const { data: events } = (await admin.get('/events?limit=100')).body
  t.equal(events.filter(({ type }: { type: string }) => type === 'users.created').length, 4)
  await app.close()

  const file = join(testFolder(t), 'backup.gz')
  t.match(await runCommand(t, ['backup', file], place), { code: 0, err: '' })
  t.equal((await runCommand(t, 'doctor', settings)).code, 0)
  const target = await createEmptyDatabase(t)
  t.match(await runCommand(t, ['restore', file], target), { code: 0 })
  t.strictSame(await withDatabaseAt(target, readEverything), await withDatabaseAt(place, readEverything))
})
