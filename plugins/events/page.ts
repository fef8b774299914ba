/** Reads pages of events, together with the state of the feed in the same snapshot. */
import { and, eq, getTableColumns, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { isStatementTimeout } from '../../drizzle/client/errors.ts'
import { type PreparedStatement, prepare } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { eventFeed, events } from '../../drizzle/event-tables.ts'
import type { Actor } from '../access/index.ts'
import { invalidCursor, type Position } from '../collection/cursors.ts'
import type { ListFilters } from '../collection/sql/list-plan.ts'
import { apiError } from '../errors/index.ts'
import { buildSelection, canSelect, getSelectionValues } from './filter.ts'
import { buildReadableConditions, type ReadableRules, type RecordedResource } from './readable.ts'
import type { EventRow } from './represent-event.ts'
import { createFeedRow } from './sequencer.ts'

const { bytes: _, ...columns } = getTableColumns(events)

/** A place in the feed: the position of an event and its id. Before the first event, the id is that of the feed. */
export interface FeedPosition {
  position: number
  id: string
}

/** Reads the position in a cursor. @throws ApiError 400 INVALID_CURSOR */
export function toFeedPosition([text, id = '']: Position): FeedPosition {
  const position = Number(text)
  if (!Number.isSafeInteger(position)) throw invalidCursor()
  return { position, id }
}

/** Returns the position for a cursor: that of a list by `position`. */
export const toPosition = ({ position, id }: FeedPosition): Position => [String(position), id]

/** The state of the feed. */
export interface FeedState {
  /** The newest event. */
  last: FeedPosition
  /** The highest position of an event that was removed. */
  removedPosition: number
}

/** A caller, and the rules of what they may read. */
interface Reader {
  resources: readonly RecordedResource[]
  rules: ReadableRules
  actor: Actor
}

interface PageQuery {
  /** The filters of a query string; undefined for all events. */
  filters?: ListFilters
  /** Who may read the events. Default: everyone, for readers that check each event. */
  reader?: Reader
  /** Events after this one, or before it if the order is descending; undefined for those of the first page. */
  from?: FeedPosition | undefined
  isDescending?: boolean
  limit: number
  /** Bytes of the resources in the events, beyond which no further event is read. */
  maxBytes: number
}

export interface EventPage {
  events: EventRow[]
  hasMore: boolean
  /** The bytes of the resources in the events. */
  bytes: number
  /** The state of the feed, as it was when the page was read. */
  feed: FeedState
}

type StateRow = {
  last_position: number
  last_id: string
  removed_position: number
  /** The id that a cursor at the position that was asked for has now. */
  from_id: string
}

type PageRow = StateRow &
  EventRow & {
    /** The bytes of the resources in this event and in those before it. */
    total_bytes: number
    /** The number of events that were found, one more than `limit` at most. */
    found: number
  }

/** Builds the expression for the id that a cursor at a position has. The event of `removed_position` may be removed. */
const buildId = (position: SQLWrapper) => sql`coalesce((
  select ${events.id} from ${events} where ${events.position} = nullif(${position}, ${eventFeed.removed_position})
), ${eventFeed.removed_id})`

const buildState = (db: Connection, from: SQLWrapper) =>
  db
    .select({
      last_position: eventFeed.last_position,
      last_id: sql<string>`${buildId(eventFeed.last_position)}`.as('last_id'),
      removed_position: eventFeed.removed_position,
      from_id: sql<string>`${buildId(from)}`.as('from_id'),
    })
    .from(eventFeed)
    .where(sql`${eventFeed.id} = 1`)

/** Runs a statement that reads the state of the feed, and so has no rows until there is one. */
async function readWithState<R extends StateRow>(read: () => Promise<R[]>, connection: Connection) {
  for (;;) {
    const rows = await read()
    const [first] = rows
    if (first) return { rows, first }
    await createFeedRow(connection)
  }
}

const toState = ({ last_position: position, last_id: id, removed_position }: StateRow): FeedState => ({
  last: { position, id },
  removedPosition: removed_position,
})

/**
 * Checks that no event after a cursor is missing: removed after its retention, or lost with a database that was restored
 * from an older backup. Positions are given a second time then, to events with other ids.
 * @throws ApiError 410 EVENTS_EXPIRED
 */
function ensureAvailable(from: FeedPosition, state: StateRow, isDescending = false): void {
  // Older events are removed first: a list of the newest first just ends earlier.
  if (isDescending && from.position < state.removed_position) return
  const isKept = from.position >= state.removed_position && from.position <= state.last_position
  if (!isKept || from.id !== state.from_id) throw apiError('EVENTS_EXPIRED')
}

const selectState = prepare((db) => buildState(db, sql`${sql.placeholder('from')}::bigint`))

/**
 * Reads the state of the feed.
 * @throws ApiError 410 EVENTS_EXPIRED if `from` is a cursor after which an event is missing
 */
export async function readFeedState(connection: Connection, from?: FeedPosition): Promise<FeedState> {
  const values = { from: from?.position ?? null }
  const { first } = await readWithState(() => selectState(connection, values), connection)
  if (from) ensureAvailable(from, first)
  return toState(first)
}

/**
 * Reads a page, in one statement and so in one snapshot: the feed's last position has no event before it that the page
 * lacks. Events have a position, so those that are just committed are not on a page yet. A statement that takes too long is
 * tried again for half as many events.
 * @throws ApiError 410 EVENTS_EXPIRED if an event after `from` is missing
 */
export async function readEventPage(connection: Connection, query: PageQuery): Promise<EventPage> {
  try {
    return await readPage(connection, query)
  } catch (error) {
    if (!isStatementTimeout(error) || query.limit === 1) throw error
    const [limit, maxBytes] = [Math.ceil(query.limit / 2), Math.ceil(query.maxBytes / 2)]
    return readEventPage(connection, { ...query, limit, maxBytes })
  }
}

/** The number of resource types up to which the events of each are looked for, instead of walking over all events. */
const FEW_TYPES = 2

/** Returns the filters, with one of the resource types if the caller may read few. */
function narrow({ filters = { filters: {}, bounds: [], words: [] }, reader }: PageQuery): ListFilters {
  if (!reader || reader.rules.size > FEW_TYPES || filters.filters.type) return filters
  return { ...filters, filters: { resource_type: [...reader.rules.keys()], ...filters.filters } }
}

/** Returns the resources of which a page may have events. */
const listSelected = ({ filters, reader }: PageQuery): RecordedResource[] =>
  reader?.resources.filter(({ name }) => reader.rules.has(name) && (!filters || canSelect(filters, name))) ??
  []

/** Builds the conditions of which an event of the page meets at least one. */
function buildAccess(query: PageQuery): SQL[] {
  if (!query.reader) return [sql`true`]
  const caller = sql.placeholder('caller')
  const conditions = buildReadableConditions(listSelected(query), query.reader.rules, sql`${caller}`)
  return conditions.length > 0 ? conditions : [sql`false`]
}

/**
 * Positions and sizes are read first, so that large resources beyond the limit are not read. Each condition of the access,
 * and each value of a filter, is a read of its own, because one index has the events of each in their order.
 */
function buildPage(db: Connection, query: PageQuery): SQL {
  const { from, isDescending = false } = query
  const start = sql`${sql.placeholder('from')}::bigint`
  const { conditions, values, column } = buildSelection(narrow(query))
  if (from) conditions.push(sql`${events.position} ${sql.raw(isDescending ? '<' : '>')} ${start}`)
  // Without recorded changes for a time, the feed begins after that time, and the events before it are only listed.
  else if (!isDescending) conditions.push(sql`${events.position} > feed.removed_position`)
  const direction = sql.raw(isDescending ? 'desc' : 'asc')
  const limit = sql`${sql.placeholder('limit')}::bigint`
  const reads = buildAccess(query).map((access) => {
    const read = sql`select ${events.position} as position, ${events.bytes} as bytes from ${events}
      where ${and(...conditions, access)}`
    const end = sql`${events.position} ${direction} limit ${limit} + 1`
    if (!values) return sql`(${read} order by ${end})`
    return sql`select found.* from ${values}
      cross join lateral (${read} order by ${column} ${direction}, ${end}) as found`
  })
  return sql`with feed as materialized (${buildState(db, start)})
    select feed.*, page.* from feed left join lateral (
      select ${sql.join(Object.values(columns), sql`, `)}, total_bytes, found from (
        select position, bytes, count(*) over () as found,
          (sum(bytes) over (order by position ${direction}))::bigint as total_bytes
        from (
          select * from (${sql.join(reads, sql` union `)}) as found order by position ${direction} limit ${limit} + 1
        ) as candidates
      ) as sized join ${events} on ${events.position} = sized.position
      where total_bytes - sized.bytes <= ${sql.placeholder('maxBytes')}::bigint
      order by sized.position ${direction} limit ${limit}
    ) as page on true order by page.position ${direction}`
}

/** Statements of the resources of an app. Clients choose the shapes, so their number is limited. */
type PageStatements = LRUCache<string, PreparedStatement<PageRow[]>>

/** Without it, building the statement takes 130 us of CPU for each page. */
const statements = new WeakMap<readonly RecordedResource[], PageStatements>()
const MAX_STATEMENTS = 500
/** Of readers that check each event. */
const NO_RESOURCES: readonly RecordedResource[] = []

/** @param values those of the filters */
function getPageStatement(query: PageQuery, values: object): PreparedStatement<PageRow[]> {
  const { reader, from, isDescending } = query
  const resources = reader?.resources ?? NO_RESOURCES
  const known: PageStatements = statements.get(resources) ?? new LRUCache({ max: MAX_STATEMENTS })
  statements.set(resources, known)
  const types = listSelected(query).map(({ name }) => name)
  // The role determines the rules of the types.
  const shape = [reader?.actor.role, types, Object.keys(values), from !== undefined, isDescending].join('|')
  // Planned for its values: which index is best depends on how many events a filter leaves.
  const statement =
    known.get(shape) ??
    prepare((db) => db.execute<PageRow>(buildPage(db, query)), {
      customPlan: true,
    })
  known.set(shape, statement)
  return statement
}

async function readPage(connection: Connection, query: PageQuery): Promise<EventPage> {
  const { reader, from, isDescending, limit, maxBytes } = query
  const filterValues = getSelectionValues(narrow(query))
  const readRows = getPageStatement(query, filterValues)
  // A caller without a user, such as the bootstrap key without its admin, equals no value.
  const caller = reader?.actor.userId || null
  const values = { ...filterValues, caller, from: from?.position ?? null, limit, maxBytes }
  const { rows, first } = await readWithState(() => readRows(connection, values), connection)
  if (from) ensureAvailable(from, first, isDescending)
  // Without an event, the join leaves one row of NULLs.
  const found = first.id === null ? [] : rows
  return {
    events: found,
    hasMore: found.length > 0 && first.found > found.length,
    bytes: found.at(-1)?.total_bytes ?? 0,
    feed: toState(first),
  }
}

const selectEvent = prepare(
  (db) =>
    db
      .select(columns)
      .from(events)
      .where(eq(events.id, sql.placeholder('id'))),
  { canBatch: true },
)

/** Reads one event. */
export async function readEvent(connection: Connection, id: string): Promise<EventRow | undefined> {
  const [row] = await selectEvent(connection, { id })
  return row
}
