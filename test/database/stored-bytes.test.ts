/** A small request makes the database store and log few bytes. */
import t from 'tap'
import { type Json, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'

const LENGTH = 100_000
const NOTES = '/api/v1/users/me/notes'
const database = await createSharedDatabase(t)
const { app, person } = await testApp(t, {}, { database, resources: resourcesWithNotes })
await createNotesTable(database)

const randomText = () =>
  Array.from({ length: LENGTH }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

const readNumber = async (text: string) => Number((await database.run(`select (${text})::bigint as n`))[0]?.n)

const storedBytes = () =>
  readNumber(`select coalesce((select sum(octet_length(body)) from idempotency_keys), 0)
    + coalesce((select sum(octet_length(body)) from idempotency_replies), 0)`)

t.test('stored replies to writes without effect are deduplicated and replayed unchanged', async (t) => {
  const { client } = await person('member')
  // The time of a reply is stored apart from it: a text that looks like it stays as it is.
  const note = await client.post(NOTES, { title: '"timestamp":"2026', body: randomText() })
  const path = `${NOTES}/${note.body.data.id}`
  const before = await storedBytes()
  const sent = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const header = createKeyHeader()
      const version = i % 2 === 0 ? path : path.replace('v1', 'v2')
      return { header, version, reply: await client.patch(version, {}, header) }
    }),
  )
  for (const { reply } of sent) t.equal(reply.status, 200)
  const stored = (await storedBytes()) - before
  t.ok(stored < 3 * LENGTH, `${stored} bytes for both versions`)

  t.equal((await client.patch(path, { title: 'b', body: 'short' })).status, 200)
  for (const { header, version, reply } of sent) {
    const again = await client.patch(version, {}, header)
    t.ok(isReplayed(again))
    t.same(pickReplayedParts(again), pickReplayedParts(reply))
  }
  const [first] = sent
  t.equal((await client.patch(path, { title: 'c' }, first?.header)).body.error.code, 'IDEMPOTENCY_KEY_REUSED')
})

t.test('a change of a long post writes little more WAL than the change', async (t) => {
  const [user] = await insertRows(database, 'users', [{}])
  const [id] = await insertRows(database, 'posts', [{ user_id: user, title: 'a', body: randomText() }])
  /** Bytes of write-ahead log of an update; other tests on the same server do not count. */
  const countLogged = async (change: string) => {
    const explained = await database.run(
      `explain (analyze, wal, format json) update posts set ${change}, updated_at = clock_timestamp() where id = '${id}'`,
    )
    const plan: Json = Object.values(explained[0] ?? {})[0]
    return (typeof plan === 'string' ? JSON.parse(plan) : plan)[0].Plan['WAL Bytes']
  }
  for (const [change, limit] of [
    // The search text has the whole body.
    [`title = title || 'b', search = search || 'b'`, 5 * LENGTH],
    [`status = 'published'`, LENGTH],
  ] as const) {
    // After a checkpoint, the first change of each page is logged with the whole page, so that it is not counted.
    await countLogged(change)
    const bytes = await countLogged(change)
    t.ok(bytes < limit, `${change}: ${bytes} bytes`)
  }
})

t.test('stored replies are removed with their records', async (t) => {
  await database.run(`update idempotency_keys set created_at = now() - interval '25 hours'`)
  await app.idempotency.prune()
  t.ok(
    (await readNumber('select count(*) from idempotency_replies')) > 0,
    'kept for a day after their last use',
  )
  await database.run(`update idempotency_replies set last_used_at = now() - interval '25 hours'`)
  await app.idempotency.prune()
  t.equal(await readNumber('select count(*) from idempotency_replies'), 0)
})
