/** The conditions of a feed list and of a stream: the filters of the query string, as SQL and as a check of one event. */
import type { Param } from '../../drizzle/client/types.ts'
import { toInstant } from '../collection/request/times.ts'
import type { ListFilters } from '../collection/sql/list-conditions.ts'
import type { EventRow } from './represent-event.ts'

/** The end of a `type` that stands for all changes of a collection: `products.*`. */
const ALL_KINDS = '.*'

export const getWildcard = (resourceType: string) => `${resourceType}${ALL_KINDS}`

/** Filters that are compared with the column of the same name. */
const EQUALITIES = { resource_type: 'text', resource_id: 'uuid', actor_id: 'uuid' } as const

/** Adds a parameter to a statement and returns its placeholder. */
export type AddParam = (value: Param) => string

/** Builds a condition that a column has one of some values. With one, PostgreSQL reads an index in its order. */
function buildEquality(column: string, type: string, values: readonly string[], addParam: AddParam): string {
  const [only = ''] = values
  if (values.length === 1) return `events.${column} = ${addParam(only)}::${type}`
  return `events.${column} = any(${addParam(`{${values.join()}}`)}::${type}[])`
}

const getResourceTypes = (types: readonly string[]) => [
  ...new Set(types.map((type) => type.slice(0, type.indexOf('.')))),
]

/** Returns whether a query string can select events of a resource type. */
export function canSelect({ filters }: ListFilters, resourceType: string): boolean {
  const { type, resource_type } = filters
  const isOfType = !type || getResourceTypes(type.map(String)).includes(resourceType)
  return isOfType && (!resource_type || resource_type.includes(resourceType))
}

/** `type` also limits `resource_type`, with which the indexes begin. */
function buildTypeConditions(values: readonly string[], addParam: AddParam): string[] {
  const resourceTypes = getResourceTypes(values)
  const wildcards = values.filter((value) => value.endsWith(ALL_KINDS))
  const isOfResource = buildEquality('resource_type', 'text', resourceTypes, addParam)
  if (wildcards.length === values.length) return [isOfResource]
  const isOfType = buildEquality('type', 'text', values, addParam)
  if (wildcards.length === 0) return [isOfResource, isOfType]
  const isOfWildcard = `events.resource_type || '${ALL_KINDS}' = any(${addParam(`{${wildcards.join()}}`)}::text[])`
  return [isOfResource, `(${isOfType} or ${isOfWildcard})`]
}

/** Builds the conditions of a query string on rows of `events`. */
export function buildFilterConditions({ filters, bounds }: ListFilters, addParam: AddParam): string[] {
  const { type } = filters
  return [
    ...(type ? buildTypeConditions(type.map(String), addParam) : []),
    ...Object.entries(EQUALITIES).flatMap(([name, sqlType]) => {
      const values = filters[name]
      return values ? [buildEquality(name, sqlType, values.map(String), addParam)] : []
    }),
    ...bounds.map(
      ({ field, operator, value }) => `events.${field} ${operator} ${addParam(value)}::timestamptz`,
    ),
  ]
}

/** Returns a timestamp of a row as the limits of a query string are written. */
const toComparable = (text: string) => toInstant(`${text.replace(' ', 'T')}:00`, 'down') ?? ''

/** Returns whether an event meets the conditions of a query string. */
export function matches({ filters, bounds }: ListFilters, event: EventRow): boolean {
  const { type, resource_type, resource_id, actor_id } = filters
  if (type && !type.includes(event.type) && !type.includes(getWildcard(event.resource_type))) return false
  if (resource_type && !resource_type.includes(event.resource_type)) return false
  if (resource_id && !resource_id.includes(event.resource_id)) return false
  if (actor_id && (event.actor_id === null || !actor_id.includes(event.actor_id))) return false
  return bounds.every(({ operator, value }) => {
    const createdAt = toComparable(event.created_at)
    return operator === '<' ? createdAt < String(value) : createdAt >= String(value)
  })
}
