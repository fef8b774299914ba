/** Reads pages of events, together with the state of the feed in the same snapshot. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection, Param } from '../../drizzle/client/types.ts'
import type { ListFilters } from '../collection/sql/list-conditions.ts'
import { apiError } from '../errors/index.ts'
import { type AddParam, buildFilterConditions } from './filter.ts'
import type { EventRow } from './represent-event.ts'
import type { FeedState } from './sequencer.ts'

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

const listColumns = (table: string) => COLUMNS.map((name) => `${table}.${name}`).join(', ')

interface PageQuery {
  /** The filters of a query string; undefined for all events. */
  filters?: ListFilters
  /** Builds the condition on the events that the caller may read. Default: all. */
  buildAccess?: (addParam: AddParam) => string
  /** Events after this position, or before it if the order is descending; undefined for those of the first page. */
  from?: number | undefined
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

type PageRow = EventRow & {
  feed_last: number
  feed_removed: number
  /** The bytes of the resources in this event and in those before it. */
  total_bytes: number
  /** The number of events that were found, one more than `limit` at most. */
  found: number
}

/** The bytes of the resource in an event, before and after the change. */
const BYTES = 'octet_length(columns::text) + coalesce(octet_length(previous::text), 0)'

/**
 * Reads a page, in one statement and so in one snapshot: the feed's last position has no event before it that the page
 * lacks. Events have a position, so those that are just committed are not on a page yet.
 */
export async function readEventPage(connection: Connection, query: PageQuery): Promise<EventPage> {
  const { filters, buildAccess, from, isDescending = false, limit, maxBytes } = query
  const params: Param[] = []
  const addParam: AddParam = (value) => `$${params.push(value)}`
  const conditions = [
    ...(from === undefined ? [] : [`events.position ${isDescending ? '<' : '>'} ${addParam(from)}::bigint`]),
    ...(filters ? buildFilterConditions(filters, addParam) : []),
    ...(buildAccess ? [buildAccess(addParam)] : []),
  ]
  const order = `position ${isDescending ? 'desc' : 'asc'}`
  const text = `select feed.*, page.* from (
      select coalesce(max(last_position), 0)::bigint as feed_last, coalesce(max(removed_position), 0)::bigint as feed_removed
      from event_feed
    ) as feed left join lateral (
      select * from (
        select candidates.*, count(*) over () as found,
          (sum(bytes) over (order by ${order}))::bigint as total_bytes
        from (
          select ${listColumns('events')}, ${BYTES} as bytes from events
          ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`}
          order by ${order} limit ${addParam(limit + 1)}::bigint
        ) as candidates
      ) as sized where total_bytes - bytes <= ${addParam(maxBytes)}::bigint
    ) as page on true order by ${order}`
  // Planned for its values: which index is best depends on how many events a filter leaves.
  const rows = await queryRows<PageRow>(connection, text, params, { customPlan: true })
  const [first] = rows
  if (!first) throw new Error('The state of the feed returned no row')
  const { feed_last: last_position, feed_removed: removed_position } = first
  // Without an event, the join leaves one row of NULLs.
  const events = first.id === null ? [] : rows.slice(0, limit)
  return {
    events,
    hasMore: events.length > 0 && first.found > events.length,
    bytes: events.at(-1)?.total_bytes ?? 0,
    feed: { last_position, removed_position },
  }
}

const SELECT_EVENT = `select ${listColumns('events')} from events where id = $1`

/** Reads one event. */
export async function readEvent(connection: Connection, id: string): Promise<EventRow | undefined> {
  const [row] = await queryRows<EventRow>(connection, SELECT_EVENT, [id], { canBatch: true })
  return row
}

/**
 * Checks that no event after a position is missing: removed after its retention, or lost with a database that was
 * restored from an older backup.
 * @throws ApiError 410 EVENTS_EXPIRED
 */
export function ensureAvailable(position: number, { last_position, removed_position }: FeedState): void {
  if (position >= removed_position && position <= last_position) return
  throw apiError('EVENTS_EXPIRED')
}
