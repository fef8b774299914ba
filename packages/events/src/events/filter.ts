/** The conditions of a feed list and of a stream: the filters of the query string, as SQL and as a check of one event. */
import type { Param } from '@resource-api/database/client'
import { hashEventId } from '@resource-api/database/key'
import { events, getColumnType } from '@resource-api/database/tables'
import { type Bound, type ListFilters, toInstant } from '@resource-api/resources/internal'
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { changeKinds } from '../schemas/events.ts'
import type { EventRow } from './represent-event.ts'

/** The end of a `type` that stands for all changes of a collection: `users.*`. */
const ALL_KINDS = '.*'

export const getWildcard = (resourceType: string) => `${resourceType}${ALL_KINDS}`

const getResourceType = (type: string) => type.slice(0, type.indexOf('.'))

const listKinds = (resourceType: string) => changeKinds.map((kind) => `${resourceType}.${kind}`)

/** Returns the types that filters select; undefined if they select all. */
function listTypes({ filters }: ListFilters): string[] | undefined {
  const { type, resource_type } = filters
  if (!type) return resource_type?.map(String).flatMap(listKinds)
  const types = type
    .map(String)
    .flatMap((each) => (each.endsWith(ALL_KINDS) ? listKinds(getResourceType(each)) : [each]))
  return [...new Set(types)].filter((each) => !resource_type || resource_type.includes(getResourceType(each)))
}

/** Returns whether a query string can select events of a resource type. */
export const canSelect = (filters: ListFilters, resourceType: string): boolean =>
  listTypes(filters)?.some((type) => getResourceType(type) === resourceType) ?? true

const getBoundName = ({ field, operator }: Bound) => `${field} ${operator}`

interface Selection {
  conditions: SQL[]
  /** The values of a column, as a table, to each of which a condition compares the column. Undefined for all events. */
  values: SQL | undefined
  /**
   * The column. To be the first one of the order: PostgreSQL then reads the index of the column and the position, and not
   * that of all positions with another condition, which takes long where the events of a type are all old.
   */
  column: PgColumn | undefined
}

/** Returns the values of the placeholders in `buildSelection`. Their names determine its statement. */
export function getSelectionValues(selected: ListFilters): Record<string, Param> {
  const { resource_id, actor_id } = selected.filters
  const types = listTypes(selected)
  return {
    ...(resource_id && { resource_id: resource_id.map((id) => hashEventId(String(id))) }),
    ...(actor_id && { actor_id }),
    ...(types && { type: types }),
    ...Object.fromEntries(selected.bounds.map((bound) => [getBoundName(bound), bound.value])),
  }
}

/** Builds the conditions of a query string on rows of `events`. */
export function buildSelection(selected: ListFilters): Selection {
  const { filters, bounds } = selected
  // The only field of events with bounds is the time of creation.
  const conditions = bounds.map(
    (bound) =>
      sql`${events.created_at} ${sql.raw(bound.operator)} ${sql.placeholder(getBoundName(bound))}::timestamptz`,
  )
  const selection: Selection = { conditions, values: undefined, column: undefined }
  // Each has an index with the position. That of the first one is read, which selects the fewest events.
  for (const [column, values] of [
    [events.resource_id, filters.resource_id],
    [events.actor_id, filters.actor_id],
    [events.type, listTypes(selected)],
  ] as const) {
    if (!values) continue
    const list = sql`${sql.placeholder(column.name)}::${sql.raw(getColumnType(column))}[]`
    // With `=`, PostgreSQL would drop the column from the order.
    conditions.push(sql`${column} = any(${selection.column ? list : sql`array[wanted.value]`})`)
    if (selection.column) continue
    selection.column = column
    selection.values = sql`unnest(${list}) as wanted (value)`
  }
  return selection
}

/** Returns a timestamp of a row as the limits of a query string are written. */
const toComparable = (text: string) => toInstant(`${text.replace(' ', 'T')}:00`, 'down') ?? ''

/** Returns whether an event meets the conditions of a query string. */
export function matches({ filters, bounds }: ListFilters, event: EventRow): boolean {
  const { type, resource_type, resource_id, actor_id } = filters
  if (type && !type.includes(event.type) && !type.includes(getWildcard(event.resource_type))) return false
  if (resource_type && !resource_type.includes(event.resource_type)) return false
  if (resource_id && !resource_id.some((id) => hashEventId(String(id)) === event.resource_id)) return false
  if (actor_id && (event.actor_id === null || !actor_id.includes(event.actor_id))) return false
  if (bounds.length === 0) return true
  const createdAt = toComparable(event.created_at)
  return bounds.every(({ operator, value }) => createdAt < String(value) === (operator === '<'))
}
