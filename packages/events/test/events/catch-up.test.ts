/** A stream that begins in the past reads earlier events as lists do: bounded by bytes, counted, and taking turns. */
import t from 'tap'
import type { Param } from '../../../database/src/client/index.ts'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen, testDatabase } from '../../../testing/helpers/database.ts'
import { openStream, readFeed } from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'

const headers = { 'x-api-key': ADMIN_KEY }
const path = '/events?type=products.*'
/** Closes streams directly before the app: `fetch` replaces a connection that is aborted, and a shutdown waits for it. */
const streamOwner = t
/** The streams of a user, without that of the first test. */
const MAX_STREAMS = 4
const COUNT = 30
const EVENT_BYTES = 49_152
/** With three events each, a page has more than 128 KiB. */
const PAGES = COUNT / 3
/** Requests that a page counts as: itself, and one for each 64 KiB. */
const PAGE_COST = 1 + Math.floor((3 * EVENT_BYTES) / 65_536)

const inner = await testDatabase(t)
let onPage: (text: string, params: readonly Param[]) => Promise<void> | void = () => undefined
const database = intercept(inner, (text, params) =>
  text.includes('total_bytes') ? onPage(text, params) : undefined,
)
/** Opens an app with other limits on the same database, which it does not close. */
const openApp = (settings: Record<string, string> = {}) =>
  testApp(t, settings, { database: keepOpen(database) })

const first = await openApp()
await first.app.events.assignAll()
const { cursor } = await readFeed(first.admin, '&type=products.*')
// PostgreSQL compresses only what is repeated within 4 KiB.
await inner.run(
  `insert into outbox (type, resource_id, revision, columns, bytes, credential)
   select 'products.created', gen_random_uuid(), 1, json_build_object('description', repeat(text, ${EVENT_BYTES / 16_384})), ${EVENT_BYTES}, 'system'
   from generate_series(1, ${COUNT}) as n, lateral (
     select string_agg(md5(n::text || part::text), '') as text from generate_series(1, 512) as part
   ) as block`,
)
await first.app.events.assignAll()

/** Opens a stream of products after the cursor. */
const open = (base: string, sent = headers) =>
  openStream(streamOwner, { base }, { headers: sent, path, cursor })

t.test('a page reads the resources that it returns, and no others', async (t) => {
  let statement: [string, readonly Param[]] = ['', []]
  onPage = (...page) => {
    statement = page
  }
  await (await open(first.base)).waitForEvents(3)
  const [text, params] = statement
  const [explained] = await inner.run(`explain (analyze, buffers, format json) ${text}`, params)
  const [{ Plan: plan }] = JSON.parse(JSON.stringify(explained?.['QUERY PLAN']))
  t.equal(plan['Actual Rows'], 3)
  // The resources are in at least six pages of 8 KiB each.
  const pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
  t.ok(pages < 5 * COUNT, `${pages} pages`)
})

t.test('a stream counts earlier events as a list of them', async (t) => {
  const { base, person } = await openApp({ RATE_LIMIT: '100000' })
  const [lister, follower] = [await person('admin'), await person('admin')]
  const readRemaining = async ({ client }: typeof lister) =>
    Number((await client.get('/products')).headers.get('x-ratelimit-remaining'))
  const before = await readRemaining(lister)
  const { events } = await readFeed(lister.client, '&type=products.*&limit=100', cursor)
  t.equal(events.length, COUNT)
  const cost = before - (await readRemaining(lister)) - 1
  t.ok(cost >= (COUNT * EVENT_BYTES) / 65_536, `a list counts as ${cost} requests`)

  const start = await readRemaining(follower)
  const stream = await open(base, { 'x-api-key': follower.key })
  await stream.waitForEvents(COUNT)
  let requests = 0
  // The last page is counted after it was sent.
  await waitUntil(async () => {
    requests += 1
    return start - (await readRemaining(follower)) - requests >= cost
  })
  t.pass()
})

t.test('a stream waits while a window is full, and does not end', async (t) => {
  const { base, admin } = await openApp({ RATE_LIMIT: String(2 * PAGE_COST), RATE_LIMIT_WINDOW: '1' })
  const startedAt = performance.now()
  const stream = await open(base)
  const statuses = new Set<number>()
  await waitUntil(async () => {
    statuses.add((await admin.get('/products')).status)
    return stream.events.length === COUNT
  })
  t.ok(statuses.has(429), 'the pages fill the windows of the user')
  // A window of a second admits requests until it is full: two pages, and a third one that exceeds it.
  const seconds = (performance.now() - startedAt) / 1000
  t.ok(seconds > PAGES / 3 - 1, `${seconds} s`)
})

t.test('streams take turns, and two statements run at a time', async (t) => {
  const gate = createDeferred()
  const starts: unknown[] = []
  let running = 0
  let most = 0
  onPage = async (_, [start]) => {
    running += 1
    most = Math.max(most, running)
    starts.push(start)
    await gate.promise
    running -= 1
  }
  const streams = await Promise.all(Array.from({ length: MAX_STREAMS }, () => open(first.base)))
  await waitUntil(() => running > 0)
  gate.resolve()
  for (const stream of streams) await stream.waitForEvents(COUNT)
  t.equal(most, 2)
  t.equal(new Set(starts.slice(0, MAX_STREAMS)).size, 1, 'the first page of each comes before any second one')
  t.not(starts[MAX_STREAMS], starts[0])
})
