/** The parsed query strings: of a single read (`Selection`) and of a list (`ListQuery`). */
import type { CredentialRule } from '@resource-api/api/access'

/** The parts of a resource that a request selects. */
export interface Selection {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  /** The requested fields as a version names them that has others. */
  shown?: readonly string[] | undefined
  include: readonly string[]
  /** What reading the included relations requires of the credential. */
  requires: readonly CredentialRule[]
}

export interface Sort {
  name: string
  descending: boolean
}

export type FilterValue = string | number | boolean

export interface Bound {
  field: string
  operator: '>=' | '<=' | '<'
  value: FilterValue
}

/** A condition of a list apart from equality, limits and words. */
export interface FilterCondition {
  kind: 'not' | 'null' | 'prefix' | 'related'
  /** Of its parameter, such as `status_not` or `user.status`. */
  name: string
  field: string
  /** Of `related`: the relation whose resource has the field. */
  relation?: string | undefined
  /** Sorted; those of `null` and `prefix` are one. */
  values: readonly FilterValue[]
}

export interface ListFilters {
  /** The values of each filter: sorted, and no two are equal. */
  filters: Readonly<Record<string, readonly FilterValue[]>>
  bounds: readonly Bound[]
  conditions: readonly FilterCondition[]
  words: readonly string[]
}

/** The values of a list's query string. */
export interface ListQuery extends Selection, ListFilters {
  sorts: readonly Sort[]
  limit: number
  /** Undefined for cursor pagination. */
  page: number | undefined
  /** Empty or undefined for the first page. */
  cursor: string | undefined
  /** Equal for queries with the same rows in the same order. */
  identity: string
}
