/**
 * Reads pages of events, together with the state of the feed in the same snapshot.
 *
 * A page ends with the event that exceeds a number of bytes, which each event has stored with it.
 */
import type { Actor } from '@resource-api/api/actor'
import { type Connection, prepare } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/client'
import { isStatementTimeout } from '@resource-api/database/errors'
import { events } from '@resource-api/database/tables'
import type { ListFilters } from '@resource-api/resources/internal'
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import {
  buildFeedState,
  ensureAvailable,
  type FeedPosition,
  type FeedState,
  readWithState,
} from './feed-state.ts'
import { buildSelection, canSelect, getSelectionValues } from './filter.ts'
import {
  buildReadableConditions,
  type ReadableEvents,
  type ReadableRules,
  type RecordedResource,
} from './readable.ts'
import type { EventRow } from './represent-event.ts'

const { bytes: _, ...columns } = getTableColumns(events)

interface PageQuery {
  /** The filters of a query string; undefined for all events. */
  filters?: ListFilters
  /** A caller, and the rules of what they may read. Default: all events, for readers that check each of them. */
  reader?: { rules: ReadableRules; actor: Actor }
  /** Events after this one, or before it if the order is descending; undefined for those of the first page. */
  from?: FeedPosition | undefined
  isDescending?: boolean
  limit: number
  /** Bytes of the resources in the events, beyond which no further event is read. */
  maxBytes: number
}

interface EventPage {
  events: EventRow[]
  hasMore: boolean
  /** The bytes of the resources in the events. */
  bytes: number
  /** The last position of the feed, as it was when the page was read. */
  last: FeedPosition
}

type PageRow = FeedState &
  EventRow & {
    /** The bytes of the resources in this event and in those before it. */
    total_bytes: number
    /** The number of events that were found, one more than `limit` at most. */
    found: number
  }

/** The number of resource types up to which the events of each are looked for, instead of walking over all events. */
const FEW_TYPES = 2

/** Returns the filters, with one of the resource types if the caller may read few. */
function narrow({
  filters = { filters: {}, bounds: [], words: [], conditions: [] },
  reader,
}: PageQuery): ListFilters {
  if (!reader || reader.rules.size > FEW_TYPES || filters.filters.type) return filters
  return { ...filters, filters: { resource_type: [...reader.rules.keys()], ...filters.filters } }
}

/**
 * Builds the statement of a page. Positions and sizes are read first, so that large resources beyond the limit are not read.
 * Each condition of the access, and each value of a filter, is a read of its own, because one index has the events of each
 * in their order.
 * @param access the conditions of which an event of the page meets at least one
 */
function buildPage(db: Connection, query: PageQuery, access: readonly ReadableEvents[]): SQL {
  const { from, isDescending = false } = query
  const { conditions, values, column } = buildSelection(narrow(query))
  const start = sql`${sql.placeholder('from')}::bigint`
  if (from) conditions.push(sql`${events.position} ${sql.raw(isDescending ? '<' : '>')} ${start}`)
  // Without recorded changes for a time, the feed begins after that time, and the events before it are only listed.
  else if (!isDescending) conditions.push(sql`${events.position} > feed.removed_position`)
  const direction = sql.raw(isDescending ? 'desc' : 'asc')
  const limit = sql`${sql.placeholder('limit')}::bigint`
  const reads = access.map(({ condition, keys }) => {
    const read = sql`select ${events.position}, ${events.bytes} from ${events}
      where ${and(...conditions, condition)}`
    const end = sql`${events.position} ${direction} limit ${limit} + 1`
    // The index of the key has few events, so that the order needs no column of the filter.
    if (keys) {
      const origin = sql`(${keys}) as own${values && sql` cross join ${values}`}`
      return sql`select found.* from ${origin} cross join lateral (${read} order by ${end}) as found`
    }
    if (!values) return sql`(${read} order by ${end})`
    return sql`select found.* from ${values}
      cross join lateral (${read} order by ${column} ${direction}, ${end}) as found`
  })
  return sql`with feed as materialized (${buildFeedState(db)})
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

/**
 * Creates the function that reads a page, in one statement and so in one snapshot: the feed's last position has no event
 * before it that the page lacks. Events have a position, so those that are just committed are not on a page yet. A statement
 * that takes too long is tried again for half as many events. It throws ApiError 410 EVENTS_EXPIRED if an event after `from`
 * is missing.
 * @param resources those whose changes are events
 */
export function createPageReader(resources: readonly RecordedResource[]) {
  // Without it, building the statement takes 130 us of CPU for each page.
  const statements = new StatementsByShape()

  const readRows = (connection: Connection, query: PageQuery): Promise<PageRow[]> => {
    const { filters, reader, from, isDescending, limit, maxBytes } = query
    const filterValues = getSelectionValues(narrow(query))
    const selected = resources.filter(
      ({ name }) => reader?.rules.has(name) && (!filters || canSelect(filters, name)),
    )
    const buildAccess = () => {
      if (!reader) return [{ condition: sql`true` }]
      const caller = sql`${sql.placeholder('caller')}`
      const conditions = buildReadableConditions(selected, reader.rules, { caller, usesKeys: true })
      return conditions.length > 0 ? conditions : [{ condition: sql`false` }]
    }
    const types = selected.map(({ name }) => name)
    // The role determines the rules of the types.
    const shape = [reader?.actor.role, types, Object.keys(filterValues), from !== undefined, isDescending]
    const statement = statements.get<PageRow>(
      shape.join('|'),
      (db) => db.execute(buildPage(db, query, buildAccess())),
      // Planned for its values: which index is best depends on how many events a filter leaves.
      { customPlan: true },
    )
    const caller = reader?.actor.userId ?? null
    return statement(connection, { ...filterValues, caller, from: from?.position ?? null, limit, maxBytes })
  }

  return async function readPage(connection: Connection, query: PageQuery): Promise<EventPage> {
    const { from, isDescending, limit, maxBytes } = query
    try {
      const { rows, first } = await readWithState(connection, () => readRows(connection, query))
      if (from) ensureAvailable(from, first, isDescending)
      // Without an event, the join leaves one row of NULLs.
      const found = first.id === null ? [] : rows
      return {
        events: found,
        hasMore: found.length > 0 && first.found > found.length,
        bytes: found.at(-1)?.total_bytes ?? 0,
        last: { position: first.last_position, id: first.last_id },
      }
    } catch (error) {
      if (!isStatementTimeout(error) || limit === 1) throw error
      const half = { limit: Math.ceil(limit / 2), maxBytes: Math.ceil(maxBytes / 2) }
      return readPage(connection, { ...query, ...half })
    }
  }
}

export type ReadEventPage = ReturnType<typeof createPageReader>

const selectEvent = prepare((db) =>
  db
    .select(columns)
    .from(events)
    .where(eq(events.id, sql.placeholder('id'))),
)

/** Reads one event. */
export async function readEvent(connection: Connection, id: string): Promise<EventRow | undefined> {
  const [row] = await selectEvent(connection, { id })
  return row
}
