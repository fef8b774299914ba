/** The sequencer: each event gets one position, in an order that consumers can rely on, whatever runs concurrently. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import type { Connection, Database } from '../../../database/src/client/index.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { insertEvent, insertLargeEvents, insertManyEvents } from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { createFeed } from '../../src/events/feed.ts'
import type { FeedPosition } from '../../src/events/feed-state.ts'
import { createPageReader } from '../../src/events/page.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

const readEventPage = createPageReader([])

const NEEDS_SERVER = { skip: !SERVER && 'needs several connections, or a statement timeout' }

/** Changes a row as the engine does: the event is inserted while the row is locked. */
async function change(connection: Connection, table: string, id: string) {
  await connection.run(
    `with changed as (update ${table} set revision = revision + 1 where id = $1 returning id, revision)
     insert into outbox (type, resource_id, revision, columns, previous, bytes, credential)
     select 'products.updated', id, revision, '{}', '{}', 4, 'system' from changed`,
    [id],
  )
}

/** Follows the feed with pages of a size until `isDone` returns true for the positions that were read. */
async function follow(database: Database, limit: number, wanted: number) {
  const seen: { id: string; resource_id: string; revision: number; position: number }[] = []
  let from: FeedPosition | undefined
  await waitUntil(async () => {
    const page = await readEventPage(database, { from, limit, maxBytes: 1_000_000 })
    seen.push(...page.events)
    from = page.hasMore ? page.events.at(-1) : page.last
    return seen.length >= wanted
  })
  return seen
}

// On a server, the processes have connections of their own.
t.test('consumers see each event once and in order while others write', async (t) => {
  const { url } = SERVER ? await testDatabaseUrl(t) : {}
  const embedded = await testDatabase(t)
  const open = async (poolSize = 1) => {
    if (url === undefined) return embedded
    const database = await openDatabase({ url, poolSize })
    t.teardown(() => database.close())
    return database
  }
  const first = await open(12)
  const [writers, changes] = SERVER ? [Array(12).fill(first), 40] : [Array(3).fill(first), 20]
  const sequencers = [await open(), await open()]
  const readers = [await open(), await open(), await open()]
  await first.run('create table contended (id uuid primary key, revision bigint not null)')
  const rows = Array.from({ length: 4 }, () => uuid())
  for (const id of rows) await first.run('insert into contended values ($1, 0)', [id])
  const wanted = writers.length * changes

  let isOver = false
  const assigning = sequencers.map(async (database) => {
    while (!isOver) await assignBatch(database, [])
  })
  const writing = writers.map(async (database: Database, writer) => {
    for (let i = 0; i < changes; i += 1) {
      const id = rows[(writer + i) % rows.length] ?? ''
      await database.transaction(async (tx) => {
        await change(tx, 'contended', id)
        // Some transactions stay open while others are committed.
        if (i % 3 === writer % 3) await tx.run('select pg_sleep(0.003)')
      })
    }
  })
  const [, ...seenByReader] = await Promise.all([
    Promise.all(writing),
    ...readers.map((database, i) => follow(database, 1 + i * 7, wanted)),
  ])
  isOver = true
  await Promise.all(assigning)

  const range = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
  for (const seen of seenByReader) {
    t.equal(seen.length, wanted, 'a consumer gets as many events as there were changes')
    t.equal(new Set(seen.map(({ id }) => id)).size, wanted, 'each of them once')
    for (const row of rows) {
      const revisions = seen.filter(({ resource_id }) => resource_id === row).map(({ revision }) => revision)
      t.same(revisions, range(revisions.length), 'the events of a resource are in the order of its revisions')
    }
  }
  const positions = await first.run('select position from events order by position')
  const expected = range(wanted).map((position) => ({ position }))
  t.same(positions, expected, 'positions have no gaps')
})

t.test('an open transaction delays no event of another, and comes after it', NEEDS_SERVER, async (t) => {
  const database = await testDatabase(t)
  const [hasBegun, mayEnd] = [createDeferred(), createDeferred()]
  let slow = ''
  const open = database.transaction(async (tx) => {
    slow = await insertEvent(tx)
    hasBegun.resolve()
    await mayEnd.promise
  })
  await hasBegun.promise
  const quick = await insertEvent(database)
  const readIds = async () => {
    await assignBatch(database, [])
    const { events } = await readEventPage(database, { limit: 10, maxBytes: 1_000_000 })
    return events.map(({ resource_id }) => resource_id)
  }
  t.same(await readIds(), [quick])
  mayEnd.resolve()
  await open
  t.same(await readIds(), [quick, slow])
})

t.test('a batch and its steps are committed together', async (t) => {
  const database = await testDatabase(t)
  await insertManyEvents(database, 2)
  const batches: unknown[] = []
  const step = async (_: unknown, batch: unknown) => void batches.push(batch)
  await t.rejects(assignBatch(database, [() => Promise.reject(new Error('no'))]), /no/)
  t.same(await database.run('select 1 from events'), [])
  await assignBatch(database, [step])
  await insertEvent(database)
  await assignBatch(database, [step])
  await assignBatch(database, [step])
  t.same(batches, [
    { after: 0, last: 2 },
    { after: 2, last: 3 },
  ])
})

/** Creates a feed until the test ends, with the positions to which it has advanced and the lines of its log. */
function openFeed(t: Test, database: Database) {
  const lines: string[] = []
  const advances: number[] = []
  const log = {
    warn: (_: unknown, message?: string) => void lines.push(`warn ${message}`),
    info: (message: unknown) => void lines.push(`info ${message}`),
  }
  const feed = createFeed(database, log, () => false)
  t.teardown(() => feed.stop())
  feed.onAdvance(({ position }) => advances.push(position))
  return { feed, advances, lines }
}

t.test('more events than a batch has get their positions in one run', async (t) => {
  const database = await testDatabase(t)
  await insertManyEvents(database, 2500)
  const { feed, advances } = openFeed(t, database)
  feed.start()
  await waitUntil(() => advances.at(-1) === 2500)
  t.same(advances, [1000, 2000, 2500])
})

t.test('a batch of large events has about 8 MiB', async (t) => {
  const database = await testDatabase(t)
  await insertLargeEvents(database, 20)
  for (const last of [8, 16, 20]) t.match(await assignBatch(database, []), { last, isFull: last < 20 })
})

t.test('a batch that takes too long is tried again at half the size', NEEDS_SERVER, async (t) => {
  const { url } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, statementTimeout: 1000 })
  t.teardown(() => database.close())
  await insertManyEvents(database, 1000)
  const { feed, advances } = openFeed(t, database)
  feed.addBatchStep((tx, { after, last }) => tx.run('select pg_sleep($1)', [(last - after) / 300]))
  feed.start()
  await waitUntil(() => advances.at(-1) === 1000)
  t.ok((advances[0] ?? 0) <= 250, `${advances}`)
})

t.test('a process does not wait for another one that assigns the first batch', NEEDS_SERVER, async (t) => {
  const database = await testDatabase(t)
  await insertEvent(database)
  const [hasBegun, mayEnd] = [createDeferred(), createDeferred()]
  const wait = async () => {
    hasBegun.resolve()
    await mayEnd.promise
  }
  const first = assignBatch(database, [wait])
  await hasBegun.promise
  t.equal((await assignBatch(database, [])).isBusy, true)
  mayEnd.resolve()
  t.equal((await first).last, 1)
})

t.test('a failing database is logged once, and assignment continues after it', async (t) => {
  const database = await testDatabase(t)
  let isDown = true
  let failures = 0
  const flaky = intercept(database, async () => {
    if (!isDown) return
    failures += 1
    throw new Error('down')
  })
  const { feed, advances, lines } = openFeed(t, flaky)
  await insertEvent(database)
  feed.start()
  feed.wake()
  await waitUntil(() => failures >= 2)
  isDown = false
  await waitUntil(() => advances.length > 0)
  t.same(lines, ['warn event positions could not be assigned', 'info event positions are assigned again'])
})
