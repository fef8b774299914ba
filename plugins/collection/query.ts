/** The parsed query strings: of a single read (`Selection`) and of a list (`ListQuery`). */
import type { SQLWrapper } from 'drizzle-orm'
import type { Values } from '../../drizzle/client/prepare.ts'
import type { CredentialRule } from '../access/guards.ts'

/** The parts of a resource that a request selects. */
export interface Selection {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
  /** What reading the included relations requires of the credential. */
  requires: readonly CredentialRule[]
}

export interface Sort {
  name: string
  descending: boolean
}

/** One expression of ORDER BY, and how a cursor writes its value. */
export interface SortTerm {
  name: string
  expression: SQLWrapper
  descending: boolean
  /** The text that stands for NULL in a cursor. */
  nullText: string
  /** The text before any other value in a cursor. */
  prefix: string
  /** The PostgreSQL type that a cursor's text is cast to. */
  type: string
}

export type FilterValue = string | number | boolean

export interface Bound {
  field: string
  operator: '>=' | '<=' | '<'
  value: FilterValue
}

/** A condition of a list apart from equality, limits and words, with the names of the definition. */
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

/** The parsed query string of a list, and what follows from it for every request with the same query string. */
export interface ListQuery extends Selection, ListFilters {
  sorts: readonly Sort[]
  terms: readonly SortTerm[]
  limit: number
  /** Undefined for cursor pagination. */
  page: number | undefined
  /** Empty or undefined for the first page. */
  cursor: string | undefined
  /** Equal for queries with the same rows in the same order. */
  identity: string
  /** Equal for queries that differ only in values, limit and position: they share a statement. */
  shape: string
  values: Values
  /** Whether a caller who may list all rows reads the page from an index alone. Such statements are batched. */
  isQuick: boolean
  /** Whether PostgreSQL plans the statement for its values. */
  customPlan: boolean
  /** How many rows one statement may read. */
  chunkSize: number
}
