/** Reads pages of events, together with the state of the feed in the same snapshot. */
import { isStatementTimeout } from '../../drizzle/client/errors.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection, Param } from '../../drizzle/client/types.ts'
import { invalidCursor, type Position } from '../collection/cursors.ts'
import type { ListFilters } from '../collection/sql/list-conditions.ts'
import { apiError } from '../errors/index.ts'
import { type AddParam, buildSelection, canSelect } from './filter.ts'
import { buildReadableConditions, type ReadableRules, type RecordedResource } from './readable.ts'
import type { EventRow } from './represent-event.ts'
import { createFeedRow } from './sequencer.ts'

const COLUMNS = [
  'id',
  'position',
  'type',
  'resource_type',
  'resource_id',
  'revision',
  'columns',
  'previous',
  'owner_id',
  'actor_id',
  'credential',
  'credential_id',
  'request_id',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof EventRow)[]

const SELECTED = COLUMNS.map((name) => `events.${name}`).join(', ')

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
  userId: string
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

interface StateRow {
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
const buildId = (position: string) =>
  `coalesce((select id from events where position = nullif(${position}, removed_position)), removed_id)`

/** @param from an SQL expression */
const buildState = (from: string) =>
  `select last_position, ${buildId('last_position')} as last_id, removed_position, ${buildId(from)} as from_id
   from event_feed where id = 1`

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

const SELECT_STATE = buildState('$1::bigint')

/**
 * Reads the state of the feed.
 * @throws ApiError 410 EVENTS_EXPIRED if `from` is a cursor after which an event is missing
 */
export async function readFeedState(connection: Connection, from?: FeedPosition): Promise<FeedState> {
  const params = [from?.position ?? null]
  const { first } = await readWithState(
    () => queryRows<StateRow>(connection, SELECT_STATE, params),
    connection,
  )
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

/** Builds the conditions of which an event of the page meets at least one. */
function buildAccess({ filters, reader }: PageQuery, addParam: AddParam): string[] {
  if (!reader) return ['true']
  const { resources, rules, userId } = reader
  const selected = resources.filter(({ name }) => !filters || canSelect(filters, name))
  // A caller without a user, such as the bootstrap key without its admin, equals no value.
  const conditions = buildReadableConditions(selected, rules, () => addParam(userId || null))
  return conditions.length > 0 ? conditions : ['false']
}

/** The number of resource types up to which the events of each are looked for, instead of walking over all events. */
const FEW_TYPES = 2

/** Returns the filters, with one of the resource types if the caller may read few. */
function narrow({ filters = { filters: {}, bounds: [], words: [] }, reader }: PageQuery): ListFilters {
  if (!reader || reader.rules.size > FEW_TYPES || filters.filters.type) return filters
  return { ...filters, filters: { resource_type: [...reader.rules.keys()], ...filters.filters } }
}

/**
 * Positions and sizes are read first, so that large resources beyond the limit are not read. Each condition of the access,
 * and each value of a filter, is a read of its own, because one index has the events of each in their order.
 */
async function readPage(connection: Connection, query: PageQuery): Promise<EventPage> {
  const { from, isDescending = false, limit, maxBytes } = query
  const params: Param[] = []
  const addParam: AddParam = (value) => `$${params.push(value)}`
  const start = `${addParam(from?.position ?? null)}::bigint`
  const selection = buildSelection(narrow(query), addParam)
  if (from) selection.conditions.push(`events.position ${isDescending ? '<' : '>'} ${start}`)
  // Without recorded changes for a time, the feed begins after that time, and the events before it are only listed.
  else if (!isDescending) selection.conditions.push('events.position > feed.removed_position')
  const direction = isDescending ? 'desc' : 'asc'
  const order = `position ${direction}`
  const most = `${addParam(limit)}::bigint`
  const end = `${order} limit ${most} + 1`
  const { values, column } = selection
  const reads = buildAccess(query, addParam).map((access) => {
    const read = `select position, bytes from events where ${[...selection.conditions, access].join(' and ')}`
    if (!values) return `(${read} order by ${end})`
    return `select read.* from ${values} cross join lateral (${read} order by ${column} ${direction}, ${end}) as read`
  })
  const text = `with feed as materialized (${buildState(start)})
    select feed.*, page.* from feed left join lateral (
      select ${SELECTED}, total_bytes, found from (
        select position, bytes, count(*) over () as found, (sum(bytes) over (order by ${order}))::bigint as total_bytes
        from (select * from (${reads.join(' union ')}) as found order by ${end}) as candidates
      ) as sized join events using (position) where total_bytes - sized.bytes <= ${addParam(maxBytes)}::bigint
      order by ${order} limit ${most}
    ) as page on true order by page.${order}`
  const { rows, first } = await readWithState(
    // Planned for its values: which index is best depends on how many events a filter leaves.
    () => queryRows<PageRow>(connection, text, params, { customPlan: true }),
    connection,
  )
  if (from) ensureAvailable(from, first, isDescending)
  // Without an event, the join leaves one row of NULLs.
  const events = first.id === null ? [] : rows
  return {
    events,
    hasMore: events.length > 0 && first.found > events.length,
    bytes: events.at(-1)?.total_bytes ?? 0,
    feed: toState(first),
  }
}

const SELECT_EVENT = `select ${SELECTED} from events where id = $1`

/** Reads one event. */
export async function readEvent(connection: Connection, id: string): Promise<EventRow | undefined> {
  const [row] = await queryRows<EventRow>(connection, SELECT_EVENT, [id], { canBatch: true })
  return row
}
