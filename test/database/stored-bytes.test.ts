/** A small request makes the database store and log few bytes. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../helpers/idempotency.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { createSharedDatabase } from '../helpers/shared-database.ts'

const LENGTH = 100_000
const database = await createSharedDatabase(t)
const { person } = await testApp(t, {}, { database, resources: resourcesWithNotes })
await createNotesTable(database)

const randomText = () =>
  Array.from({ length: LENGTH }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

const readNumber = async (text: string) => Number((await database.run(`select (${text})::bigint as n`))[0]?.n)

const storedBytes = () =>
  readNumber(`select coalesce((select sum(octet_length(body)) from idempotency_keys), 0)
    + coalesce((select sum(octet_length(body)) from idempotency_replies), 0)`)

t.test('stored replies to writes without effect are deduplicated and replayed unchanged', async (t) => {
  const { client } = await person('member')
  const text = randomText()
  const note = await client.post('/api/v1/users/me/notes', { title: 'a', body: text })
  const path = `/api/v1/users/me/notes/${note.body.data.id}`
  const before = await storedBytes()
  const sent = []
  for (let i = 0; i < 20; i++) {
    const header = createKeyHeader()
    const version = i % 2 === 0 ? path : path.replace('v1', 'v2')
    sent.push({ header, version, reply: await client.patch(version, {}, header) })
  }
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

t.test('a write with an effect is replayed unchanged', async (t) => {
  const { client } = await person('member')
  const header = createKeyHeader()
  const note = await client.post(
    '/api/v1/users/me/notes',
    { title: '"timestamp":"', body: '"timestamp":"2026' },
    header,
  )
  const path = `/api/v1/users/me/notes/${note.body.data.id}`
  const unchanged = createKeyHeader()
  const reply = await client.patch(path, {}, unchanged)
  await client.patch(path, { title: 'b' })
  t.same(pickReplayedParts(await client.patch(path, {}, unchanged)), pickReplayedParts(reply))
  t.same(
    pickReplayedParts(
      await client.post(
        '/api/v1/users/me/notes',
        { title: '"timestamp":"', body: '"timestamp":"2026' },
        header,
      ),
    ),
    pickReplayedParts(note),
  )
})

t.test('two concurrent writes without effect are both stored', async (t) => {
  const { client } = await person('member')
  const note = await client.post('/api/v1/users/me/notes', { title: 'a', body: 'b' })
  const path = `/api/v1/users/me/notes/${note.body.data.id}`
  const headers = Array.from({ length: 10 }, createKeyHeader)
  const replies = await Promise.all(headers.map((header) => client.patch(path, {}, header)))
  for (const [i, reply] of replies.entries()) {
    t.equal(reply.status, 200)
    t.same(pickReplayedParts(await client.patch(path, {}, headers[i])), pickReplayedParts(reply))
  }
})

t.test('stored replies are removed with their records', async (t) => {
  const { app } = await testApp(t, {}, { database })
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
