/** Inserts events as the outbox does, reads its rows, and reads the feed and its streams as consumers do. */
import { sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import { v7 as uuid } from 'uuid'
import type { Connection, Database, Param } from '../../database/src/client/index.ts'
import type { outbox } from '../../database/src/event-tables.ts'
import type { Client, Json, Reply, TestApp } from './app.ts'
import type { Owner } from './database.ts'
import { intercept } from './statements.ts'

export interface EventValues {
  type?: string
  resource_id?: string
  revision?: number
  columns?: Readonly<Record<string, unknown>>
  previous?: Readonly<Record<string, unknown>> | null
  owner_id?: string | null
  actor_id?: string | null
  credential?: string
  credential_id?: string | null
  request_id?: string | null
  created_at?: string
}

/** The columns of a product as `to_jsonb` writes them. */
const product = {
  sku: 'TEA-1',
  name: 'Tea',
  description: null,
  price_amount: 1999,
  currency: 'USD',
  stock: 8,
  status: 'active',
  created_at: '2026-11-22T21:59:37.123456+00:00',
  updated_at: '2026-11-22T21:59:38.5+00:00',
}

/** Inserts a change into the outbox and returns the id of its resource. Default: a product was created. */
export async function insertEvent(connection: Connection, values: EventValues = {}): Promise<string> {
  const { type = 'products.created', resource_id = uuid(), revision = 1, previous = null } = values
  const columns = JSON.stringify({ id: resource_id, ...(values.columns ?? product) })
  const former = previous && JSON.stringify(previous)
  const row: Record<string, Param> = {
    type,
    resource_id,
    revision,
    columns,
    previous: former,
    bytes: Buffer.byteLength(columns) + Buffer.byteLength(former ?? ''),
    owner_id: values.owner_id ?? null,
    actor_id: values.actor_id ?? null,
    credential: values.credential ?? 'system',
    credential_id: values.credential_id ?? null,
    request_id: values.request_id ?? null,
    ...(values.created_at !== undefined && { created_at: values.created_at }),
  }
  const names = Object.keys(row)
  await connection.run(
    `insert into outbox (${names.join()}) values (${names.map((_, i) => `$${i + 1}`).join()})`,
    Object.values(row),
  )
  return resource_id
}

/** Inserts products that were created, without columns. */
export const insertManyEvents = (connection: Connection, count: number, bytes = 2) =>
  connection.run(
    `insert into outbox (type, resource_id, revision, columns, bytes, credential)
     select 'products.created', gen_random_uuid(), 1, '{}', $2::int, 'system' from generate_series(1, $1::int)`,
    [count, bytes],
  )

/** Inserts products with the size of a MiB. Limits are by the stored size, which outbox.test.ts compares with the JSON. */
export const insertLargeEvents = (connection: Connection, count: number) =>
  insertManyEvents(connection, count, 1_048_576)

/** Inserts 5,000 events of other owners, every 500th of another type, so that plans are those of a large table. */
export async function insertEventsOfOthers(connection: Connection, common: string, rare = common) {
  await connection.run(
    `insert into events (type, resource_type, resource_id, revision, columns, credential, position, owner_id)
     select kind || '.created', kind, gen_random_uuid(), 1, '{}', 'system', 1000 + n, gen_random_uuid()
     from generate_series(1, 5000) as n, lateral (select case when n % 500 = 0 then $1 else $2 end as kind) as k`,
    [rare, common],
  )
  await connection.run('update event_feed set last_position = 6000')
  await connection.run('analyze events')
}

/** Inserts a change, assigns all positions, and returns the id of the event. */
export async function insertPlacedEvent(
  { app, database }: Pick<TestApp, 'app' | 'database'>,
  values?: EventValues,
): Promise<string> {
  const resourceId = await insertEvent(database, values)
  await app.events.assignAll()
  const [event] = await database.run('select id from events where resource_id = $1', [resourceId])
  return String(event?.id)
}

/** Inserts an event of a resource that has an owner. */
export const insertOwnedEvent = (
  connection: Connection,
  resourceType: string,
  owner: string,
  columns: Readonly<Record<string, unknown>> = {},
) =>
  insertEvent(connection, {
    type: `${resourceType}.created`,
    ...(resourceType === 'users' && { resource_id: owner }),
    owner_id: owner,
    columns: { ...(resourceType !== 'users' && { user_id: owner }), ...columns },
  })

/** Stops the statements that an app runs on its own for events and webhooks, for tests that count or block statements. */
export async function stopEventWork({ events, webhooks, work }: FastifyInstance): Promise<void> {
  await work.pause()
  await webhooks?.pause()
  await events.stop()
}

/** Assigns all positions, and removes the events: those of the first admin and of what a test has prepared. */
export async function clearFeed({ app, database }: Pick<TestApp, 'app' | 'database'>): Promise<number> {
  await app.events.assignAll()
  return removeEvents(database)
}

/** Removes the events up to a position, or all, as retention does. @returns the position */
export async function removeEvents(database: Connection, position?: number): Promise<number> {
  const [feed] = await database.execute<{
    removed_position: number
  }>(sql`with removed as (delete from events where ${position ?? null}::bigint is null or position <= ${position ?? null}::bigint returning id, position)
     update event_feed set removed_position = last.position, removed_id = last.id
     from (select id, position from removed order by position desc limit 1) as last returning removed_position`)
  if (!feed) throw new Error('There is no event to remove')
  return feed.removed_position
}

/** Returns the events of a page, in either version. */
export const getEvents = ({ body }: Reply): Json[] =>
  body.data.map((each: Json) => (each.attributes ? { ...each.attributes, id: each.id } : each))

/** Returns the positions of events, counted from those that `clearFeed` has removed. */
export const getPlaces = (events: readonly Json[], removed: number): number[] =>
  events.map(({ position }) => position - removed)

/** Reads the feed from a cursor until it is exhausted. */
export async function readFeed(
  client: Client,
  query = '',
  from = '',
): Promise<{ events: Json[]; cursor: string }> {
  const events: Json[] = []
  let cursor = from
  for (;;) {
    const page = await client.get(`/events?sort=position&cursor=${cursor}${query}`)
    if (page.status !== 200) throw new Error(page.text)
    events.push(...getEvents(page))
    cursor = page.body.pagination.cursor
    if (!page.body.pagination.has_more) return { events, cursor }
  }
}

const SHARED_COLUMNS = sql.raw(
  'type, resource_id, revision, columns, previous, owner_id, actor_id, credential, credential_id, request_id',
)

export type ChangeRow = Omit<typeof outbox.$inferSelect, 'sequence' | 'created_at'>

/** Returns the changes of a resource, or all, with and without a position, in their order. */
export const readChanges = (database: Connection, resourceId?: string): Promise<ChangeRow[]> =>
  database.execute<ChangeRow>(sql`select ${SHARED_COLUMNS} from (
       select position, null as sequence, ${SHARED_COLUMNS} from events
       union all select null, sequence, ${SHARED_COLUMNS} from outbox
     ) as changes where ${resourceId ?? null}::uuid is null or resource_id = ${resourceId ?? null}::uuid order by position nulls last, sequence`)

/** Returns the types of events, sorted: `sessions.deleted x2, users.updated`. */
export function countTypes(events: readonly Pick<ChangeRow, 'type'>[]): string {
  const counts = new Map<string, number>()
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1)
  return [...counts]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([type, count]) => (count === 1 ? type : `${type} x${count}`))
    .join(', ')
}

interface StreamedEvent {
  id: string
  type: string
  data: Json
  /** When it arrived: milliseconds since the epoch. */
  at: number
}

interface OpenOptions {
  headers: Record<string, string>
  /** The path with the query string. */
  path?: string
  cursor?: string | undefined
}

export interface TestStream {
  status: number
  headers: Headers
  /** Waits until there are as many events. Rejects if the stream ends before. */
  waitForEvents(count: number): Promise<readonly StreamedEvent[]>
  /** Waits for the next comment, and returns the cursor that it has. */
  waitForComment(): Promise<string>
  /** Waits until the server has ended the stream. Rejects if the connection was broken. */
  waitForEnd(): Promise<void>
  /** The events so far. */
  events: readonly StreamedEvent[]
  /** The last cursor. */
  getCursor(): string
  close(): void
  /** The body of a response that is no stream. */
  body: Json
}

/** The address, and the app if it is in this process. */
type StreamSource = Pick<TestApp, 'base'> & Partial<Pick<TestApp, 'app'>>

/**
 * Opens a stream, which is closed after the test. Without a cursor, it has the changes after it was opened: changes get
 * their positions later, so all that were made before get one first.
 */
export async function openStream(
  t: Owner,
  { app, base }: StreamSource,
  options: OpenOptions,
): Promise<TestStream> {
  const { headers, path = '/events', cursor } = options
  if (cursor === undefined) await app?.events.assignAll()
  const aborter = new AbortController()
  t.teardown(() => aborter.abort())
  const reply = await fetch(`${base}${path}`, {
    headers: {
      accept: 'text/event-stream',
      ...headers,
      ...(cursor !== undefined && { 'last-event-id': cursor }),
    },
    signal: aborter.signal,
  })
  const events: StreamedEvent[] = []
  let lastId = ''
  let comments = 0
  let failure: unknown
  let isOver = false
  let wakeUp: () => void = () => undefined

  const readBlock = (block: string) => {
    const fields = new Map(
      block
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
    )
    lastId = fields.get('id') ?? lastId
    const data = fields.get('data')
    if (data !== undefined) {
      events.push({ id: lastId, type: fields.get('event') ?? '', data: JSON.parse(data), at: Date.now() })
    } else if (fields.has('')) comments += 1
  }
  const readBody = async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of reply.body ?? []) {
      const blocks = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) readBlock(block)
      wakeUp()
    }
  }
  const isStream = reply.headers.get('content-type')?.startsWith('text/event-stream') === true
  const body = isStream ? undefined : await reply.json()
  if (isStream) {
    void readBody()
      .catch((error: unknown) => {
        failure = error
      })
      .finally(() => {
        isOver = true
        wakeUp()
      })
  }

  const waitFor = async (condition: () => boolean) => {
    while (!condition()) {
      if (isOver) throw new Error('The stream has ended', { cause: failure })
      await new Promise<void>((resolve) => {
        wakeUp = resolve
      })
    }
  }
  return {
    status: reply.status,
    headers: reply.headers,
    events,
    body,
    getCursor: () => lastId,
    async waitForEvents(count) {
      await waitFor(() => events.length >= count)
      return events
    },
    async waitForComment() {
      const before = comments
      await waitFor(() => comments > before)
      return lastId
    },
    async waitForEnd() {
      await waitFor(() => isOver)
      if (failure) throw failure
    },
    close: () => aborter.abort(),
  }
}

/** Reads a number of events of a stream, then closes it. */
export async function readStream(
  t: Owner,
  source: StreamSource,
  options: OpenOptions,
  count: number,
): Promise<TestStream> {
  const stream = await openStream(t, source, options)
  await stream.waitForEvents(count)
  stream.close()
  return stream
}

/** Returns a database, and a function that returns the plan of the last statement that read a page of events. */
export function explainPages(opened: Database) {
  let page: [text: string, params: readonly Param[]] = ['', []]
  const database = intercept(opened, (text, params) => {
    if (text.includes('total_bytes')) page = [text, params]
  })
  const explain = async () => JSON.stringify(await opened.run(`explain (format json) ${page[0]}`, page[1]))
  return { database, explain }
}
