/** A resource by the names of its definition, and by the names that one version publishes. */
import type { Bound } from '../request/list-bounds.ts'
import type { QueryValue } from '../request/query-values.ts'
import type { ResolvedResource } from '../resolve.ts'
import type { Sort } from '../sql/keyset.ts'
import type { FieldNames } from './field-names.ts'

/** If the fields do not differ in the version, `published` is `resource`. */
export interface PublishedResource {
  /** With the names of the definition: for SQL, actions and checks. */
  resource: ResolvedResource
  /** With the names of the version: for bodies, query strings and OpenAPI. */
  published: ResolvedResource
  /** Undefined if the fields of the resource do not differ in the version. */
  names: FieldNames | undefined
}

/** The parts of a query string that name fields. */
interface NamedFields {
  fields: readonly string[] | undefined
  sorts: readonly Sort[]
  filters: Readonly<Record<string, readonly QueryValue[]>>
  bounds: readonly Bound[]
}

/** Returns a limit with the names of the definition: `price_min` of a version is `price_amount_min`. */
function toInternalBound(bound: Bound, { toInternal }: FieldNames): Bound {
  const field = toInternal(bound.field)
  const { parameter } = bound
  return {
    ...bound,
    field,
    parameter: parameter.startsWith(bound.field) ? field + parameter.slice(bound.field.length) : parameter,
  }
}

/** Returns a query with the names of the definition in place of those of the version. */
export const toInternalQuery = <Query extends NamedFields>(
  query: Query,
  names: FieldNames,
): Query & NamedFields => ({
  ...query,
  fields: query.fields?.map(names.toInternal),
  sorts: query.sorts.map(({ name, descending }) => ({ name: names.toInternal(name), descending })),
  filters: names.toInternalFields(query.filters),
  bounds: query.bounds.map((bound) => toInternalBound(bound, names)),
})
