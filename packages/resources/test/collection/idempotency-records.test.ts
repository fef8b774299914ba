/** Idempotency records store no secret, expire after 24 hours, and are removed in batches. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { type Database, DatabaseUnavailable, type Param } from '../../../database/src/client/index.ts'
import { recordMessages, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../../../testing/helpers/replies.ts'
import { intercept } from '../../../testing/helpers/statements.ts'

const database = await createSharedDatabase(t)
const { app, admin, adminId, person } = await testApp(t, {}, { database, resources: resourcesWithNotes })
await createNotesTable(database)
/** Starts another process on a database. */
const start = (t: Test, database: Database, settings = {}) =>
  testApp(t, settings, { database, resources: resourcesWithNotes })
const isServer = database.kind === 'server'
const note = { title: 'a', body: 'b' }
const OWN_NOTES = '/users/me/notes'

const count = async (where = 'true') =>
  Number((await database.run(`select count(*) as count from idempotency_keys where ${where}`))[0]?.count)

/** As if all that was kept so far had been kept then. */
const age = (hours: string) =>
  database.run(`update idempotency_keys set created_at = now() - interval '${hours}'`)

/** Records by hand, so many, all of an age. */
const insertOld = (many: number, hours: string) =>
  database.run(
    `insert into idempotency_keys (user_id, id, body_hash, status, etag, body, created_at)
     select $1, 'old-' || gen_random_uuid(), 'x', 201, '""', '{}', now() - interval '${hours}'
     from generate_series(1, ${many})`,
    [adminId],
  )

t.test('no API key, password or Idempotency-Key is stored', async (t) => {
  const { bearer } = await person('admin')
  const [password, name] = ['canary-password-1234', 'canary-idempotency-key']
  const header = { 'idempotency-key': name }
  const user = { name: 'N', email: `${uuid()}@example.com`, password }
  const made = await bearer.post('/users', user, header)
  t.equal(made.status, 201)
  const next = { password: `${password}-again` }
  t.equal((await bearer.patch(`/users/${made.body.data.id}`, next, header)).status, 200)
  const key = await bearer.post('/api-keys', { name: 'k', scopes: ['*'] }, header)
  t.equal(key.status, 201)
  t.ok(key.body.data.key)
  const again = await bearer.post('/api-keys', { name: 'k', scopes: ['*'] }, header)
  t.ok(isReplayed(again))
  t.same(again.body.data, { ...key.body.data, key: null })
  const v2 = await bearer.post('/v2/api-keys', { name: 'k', scopes: ['*'] }, header)
  t.ok(v2.body.data.attributes.key)

  const rows = JSON.stringify(await database.run('select * from idempotency_keys'))
  t.equal(await count(), 4)
  for (const secret of ['canary', key.body.data.key, v2.body.data.attributes.key]) {
    t.notMatch(rows, secret)
  }
  t.match(rows, user.email, 'while what was answered is there')
})

t.test('bodies are hashed with a key derived from APP_SECRET', async (t) => {
  const other = await start(t, database, { APP_SECRET: 'another-secret-another-secret-another' })
  const header = createKeyHeader()
  t.equal((await admin.post(OWN_NOTES, note, header)).status, 201)
  const reply = await other.admin.post(OWN_NOTES, note, header)
  t.equal(reply.body.error.code, 'IDEMPOTENCY_KEY_REUSED', 'refused, and not done a second time')
})

t.test('a reply is stored for 24 hours, and then the key is new', async (t) => {
  const header = createKeyHeader()
  const first = await admin.post(OWN_NOTES, note, header)
  await age('23 hours 59 minutes')
  t.same(pickReplayedParts(await admin.post(OWN_NOTES, note, header)), pickReplayedParts(first))
  await age('24 hours')
  const second = await admin.post(OWN_NOTES, { ...note, title: 'c' }, header)
  t.equal(second.status, 201, 'another body too')
  t.notOk(isReplayed(second))
  t.ok(isReplayed(await admin.post(OWN_NOTES, { ...note, title: 'c' }, header)), 'and is kept from then on')
  const third = await admin.post(OWN_NOTES, note, header)
  t.equal(third.body.error.code, 'IDEMPOTENCY_KEY_REUSED', 'in place of the former')
})

t.test('only records older than 24 hours are removed, in batches', async (t) => {
  await app.idempotency.prune()
  const left = await count()
  await insertOld(1_234, '24 hours 1 second')
  await insertOld(3, '23 hours 59 minutes')
  const pruned = recordMessages(t, 'resource-api:idempotency:pruned')
  t.equal(await app.idempotency.prune(), 1_234)
  t.equal(await count(), left + 3)
  t.equal(await app.idempotency.prune(), 0)
  t.same(pruned, [{ count: 1_234 }])
})

t.test(
  'replicas remove each record once, and skip locked ones',
  { skip: !isServer && 'one connection' },
  async (t) => {
    await insertOld(2_000, '25 hours')
    const other = await start(t, database)
    const counts = await Promise.all([app, other.app, app].map(({ idempotency }) => idempotency.prune()))
    counts.push(await app.idempotency.prune())
    t.equal(
      counts.reduce((sum, each) => sum + each),
      2_000,
    )

    await insertOld(2, '25 hours')
    await database.transaction(async (tx) => {
      await tx.run(
        `select 1 from idempotency_keys where created_at < now() - interval '24 hours' limit 1 for update`,
      )
      t.equal(await app.idempotency.prune(), 1)
    })
    t.equal(await app.idempotency.prune(), 1)
  },
)

t.test('records are found and removed by index', { skip: !isServer && 'plans of a server' }, async (t) => {
  const asked: [text: string, params: readonly Param[]][] = []
  const watched = intercept(database, (text, params) => {
    if (/(?:from|on|into) "?idempotency_keys/.test(text)) asked.push([text, params])
  })
  const { app, admin } = await start(t, watched)
  await insertOld(20_000, '1 hour')
  await database.run('analyze idempotency_keys')
  await admin.post(OWN_NOTES, note, createKeyHeader())
  await app.idempotency.prune()
  t.equal(asked.length, 3, 'found, stored, removed')
  for (const [text, params] of asked) {
    const plan = (await database.run(`explain ${text}`, params)).map((row) => row['QUERY PLAN']).join('\n')
    t.notMatch(plan, /Seq Scan on idempotency_keys/, plan)
  }
  await database.run(`delete from idempotency_keys where id like 'old-%'`)
})

t.test('a request that failed with a 5xx is executed again', async (t) => {
  let away = false
  const failing = intercept(database, (text) => {
    if (away && text === 'commit') throw new DatabaseUnavailable('The server closed the connection')
  })
  const { admin } = await start(t, failing)
  const before = await count()
  const header = createKeyHeader()
  away = true
  const refused = await admin.post(OWN_NOTES, note, header)
  t.equal(refused.status, 503)
  t.ok(refused.headers.get('retry-after'))
  t.equal(await count(), before)
  away = false
  const done = await admin.post(OWN_NOTES, note, header)
  t.equal(done.status, 201)
  t.notOk(isReplayed(done))
  t.ok(isReplayed(await admin.post(OWN_NOTES, note, header)))
})

t.test('replays and mismatches are published on channels', async (t) => {
  const [replayed, mismatch] = ['replayed', 'mismatch'].map((event) =>
    recordMessages(t, `resource-api:idempotency:${event}`),
  )
  const header = createKeyHeader()
  for (const title of ['a', 'a', 'c']) await admin.post(OWN_NOTES, { ...note, title }, header)
  t.same({ replayed, mismatch }, { replayed: [{}], mismatch: [{}] })
})
