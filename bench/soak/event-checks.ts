/** Finds what is wrong with a history of events: compared with the writes, with the rows, and with what consumers saw. */
import { isDeepStrictEqual } from 'node:util'
import type { Json } from '../../packages/testing/helpers/app.ts'
import type { LoggedWrite } from './event-writer.ts'

/** An event as version 1 represents it. */
export interface FeedEvent {
  id: string
  position: number
  type: string
  resource_type: string
  resource_id: string
  revision: number
  data: Json
  previous: Json
  request_id: string | null
  created_at: string
}

/** A row of a resource's table. */
export type StoredRow = {
  resource_type: string
  id: string
  revision: number
  /** As version 1 represents it; undefined if it was not read. */
  data?: Json
}

/** Changes with every update, and is not in `previous`. */
const UNREPORTED_FIELD = 'updated_at'

const describe = ({ position, type, resource_id, revision }: FeedEvent) =>
  `${position} (${type} ${resource_id}, revision ${revision})`

function groupEvents(events: readonly FeedEvent[], getKey: (event: FeedEvent) => string) {
  const groups = new Map<string, FeedEvent[]>()
  for (const event of events) groups.set(getKey(event), [...(groups.get(getKey(event)) ?? []), event])
  return groups
}

type EventsByRequest = ReadonlyMap<string, readonly FeedEvent[]>

/** Checks that positions are 1, 2, 3 and so on, and that no id repeats. */
function findPositionErrors(events: readonly FeedEvent[]): string[] {
  const ids = new Set(events.map(({ id }) => id))
  return [
    ...events.flatMap((event, i) =>
      event.position === i + 1 ? [] : [`event ${describe(event)} is in place ${i + 1}`],
    ),
    ...(ids.size === events.length ? [] : [`${events.length - ids.size} ids of events repeat`]),
  ]
}

/** Checks that the data before a change are those after the change before it. */
function findChainErrors(before: FeedEvent, event: FeedEvent): string[] {
  const { [UNREPORTED_FIELD]: _before, ...expected } = before.data
  const { [UNREPORTED_FIELD]: _now, ...former } = { ...event.data, ...event.previous }
  return isDeepStrictEqual(former, expected)
    ? []
    : [`event ${describe(event)} does not follow the one before it`]
}

/** Checks the events of one resource, and that the row is as the last one says. */
function findResourceErrors(name: string, events: readonly FeedEvent[], row?: StoredRow): string[] {
  const last = events.at(-1)
  if (!last) return [`${name} has no event`]
  const errors = events.flatMap((event, i) => {
    const before = events[i - 1]
    const kind = event.type.split('.')[1]
    const isExpectedKind = before ? kind === 'updated' || event === last : kind === 'created'
    if (event.revision !== i + 1 || !isExpectedKind)
      return [`event ${describe(event)} is number ${i + 1} of ${events.length} of its resource`]
    return before ? findChainErrors(before, event) : []
  })
  const isDeleted = last.type.endsWith('.deleted')
  if (isDeleted && row) errors.push(`${name} exists after event ${describe(last)}`)
  if (!isDeleted && row?.revision !== last.revision)
    errors.push(`${name} has revision ${row?.revision} after event ${describe(last)}`)
  if (row?.data && !isDeepStrictEqual(row.data, last.data))
    errors.push(`${name} has other data than event ${describe(last)}`)
  return errors
}

/** Checks that each change of a row has its event, and that no event is of a change that was not made. */
function findRowErrors(events: readonly FeedEvent[], rows: readonly StoredRow[]): string[] {
  const getName = (type: string, id: string) => `${type} ${id}`
  const histories = groupEvents(events, (event) => getName(event.resource_type, event.resource_id))
  const rowsByName = new Map(rows.map((row) => [getName(row.resource_type, row.id), row]))
  const names = new Set([...histories.keys(), ...rowsByName.keys()])
  return [...names].flatMap((name) =>
    findResourceErrors(name, histories.get(name) ?? [], rowsByName.get(name)),
  )
}

/** Checks that a write has exactly one event of its own if it was made, and none otherwise. */
function findWriteErrors(write: LoggedWrite, byRequest: EventsByRequest): string[] {
  const { type, outcome, requestIds, data } = write
  const name = `${outcome} ${type} of request ${requestIds.join()}`
  const events = requestIds.flatMap((id) => byRequest.get(id) ?? [])
  const own = events.filter((event) => event.type === type)
  if (own.length > 1) return [`${name} was made ${own.length} times`]
  if (outcome === 'refused' && events.length > 0) return [`${name} has ${events.length} events`]
  if (outcome === 'acknowledged' && own.length === 0) return [`${name} has no event`]
  if (own.length === 0 && events.length > 0) return [`${name} has only events of other resources`]
  if (data && !isDeepStrictEqual(own[0]?.data, data)) return [`${name} has an event with other data`]
  return []
}

/** Checks that the products of an order have their events if, and only if, the order changed their stock. */
function findOrderErrors(order: FeedEvent, byRequest: EventsByRequest): string[] {
  const events = byRequest.get(order.request_id ?? '') ?? []
  const { status, items } = order.data
  const isTaking = order.type === 'orders.created'
  const isReleasing =
    order.type === 'orders.deleted'
      ? status === 'pending'
      : order.previous?.status === 'pending' && status === 'cancelled'
  const sign = isTaking ? 1 : -1
  const expected = Object.fromEntries(
    (isTaking || isReleasing ? items : []).map((item: Json) => [item.product_id, sign * item.quantity]),
  )
  const taken = Object.fromEntries(
    events
      .filter(({ type }) => type === 'products.updated')
      .map(({ resource_id, data, previous }) => [resource_id, previous.stock - data.stock]),
  )
  return isDeepStrictEqual(taken, expected)
    ? []
    : [`event ${describe(order)} took ${JSON.stringify(Object.entries(taken))}`]
}

/** Checks that the changes of a writer, each of which began after the response to the one before it, are in order. */
function findOrderOfWriterErrors(
  log: readonly LoggedWrite[],
  byRequest: ReadonlyMap<string, readonly FeedEvent[]>,
): string[] {
  // A write that is in doubt may be committed after the next one.
  const first = log
    .filter(({ outcome }) => outcome === 'acknowledged')
    .flatMap(({ requestIds }) => requestIds)
    .flatMap((id) => byRequest.get(id)?.slice(0, 1) ?? [])
  return first.flatMap((event, i) => {
    const before = first[i - 1]
    return before && before.position > event.position
      ? [`event ${describe(event)} precedes ${describe(before)}, which was committed first`]
      : []
  })
}

export interface History {
  /** All events of the feed, in its order. */
  events: readonly FeedEvent[]
  /** How many of them were there before the first logged write. */
  setupCount: number
  rows: readonly StoredRow[]
  /** The writes of each writer. */
  logs: readonly (readonly LoggedWrite[])[]
}

/** Returns a line for each violation of what the feed promises. */
export function findHistoryErrors({ events, setupCount, rows, logs }: History): string[] {
  const written = events.slice(setupCount)
  const byRequest = groupEvents(written, ({ request_id }) => request_id ?? '')
  const writes = logs.flat()
  const requestIds = new Set(writes.flatMap((write) => write.requestIds))
  return [
    ...findPositionErrors(events),
    ...findRowErrors(events, rows),
    ...written
      .filter(({ request_id }) => !requestIds.has(request_id ?? ''))
      .map((event) => `event ${describe(event)} is of no logged write`),
    ...writes.flatMap((write) => findWriteErrors(write, byRequest)),
    ...written
      .filter(({ resource_type }) => resource_type === 'orders')
      .flatMap((order) => findOrderErrors(order, byRequest)),
    ...logs.flatMap((log) => findOrderOfWriterErrors(log, byRequest)),
  ]
}

interface Seen {
  /** Events in the order of their arrival. */
  seen: readonly FeedEvent[]
  /** Whether an event may arrive more than once. */
  canRepeat: boolean
  /** Whether events arrive in the order of the feed. */
  isOrdered: boolean
}

/** Returns a line for each difference between what a consumer saw and the events that it should have seen. */
export function findConsumerErrors(
  name: string,
  { seen, canRepeat, isOrdered }: Seen,
  expected: readonly FeedEvent[],
): string[] {
  const all = canRepeat ? [...new Map(seen.map((event) => [event.id, event])).values()] : [...seen]
  const arrived = isOrdered ? all : all.sort((a, b) => a.position - b.position)
  const known = new Map(expected.map((event) => [event.id, event]))
  const seenIds = new Set(arrived.map(({ id }) => id))
  const missing = expected.filter(({ id }) => !seenIds.has(id))
  const altered = arrived.filter((event) => !isDeepStrictEqual(known.get(event.id), event))
  const misplaced = arrived.findIndex((event, i) => event.id !== expected[i]?.id)
  return [
    ...missing.map((event) => `${name} did not get event ${describe(event)}`),
    ...altered.map((event) => `${name} got event ${describe(event)}, which the feed does not have like this`),
    ...(missing.length === 0 && misplaced !== -1 ? [`${name} got event ${misplaced + 1} out of order`] : []),
  ]
}
