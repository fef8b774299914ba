/** What the statement of a list depends on: what a query string asks for, and the rows that the caller may list. */
import type { SQLWrapper } from 'drizzle-orm'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Actor, Rule } from '../../access/index.ts'

/** A field to sort by. */
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

/** A limit of a field. */
export interface Bound {
  field: string
  operator: '>=' | '<=' | '<'
  value: FilterValue
}

/** The conditions of a query string. */
export interface ListFilters {
  /** The values of each filter: sorted, and no two are equal. */
  filters: Readonly<Record<string, readonly FilterValue[]>>
  bounds: readonly Bound[]
  words: readonly string[]
}

export interface ListPlan extends ListFilters {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
  sorts: readonly Sort[]
  /** The total order of the rows. */
  terms: readonly SortTerm[]
  limit: number
  /** Undefined for cursor pagination. */
  page: number | undefined
  /** Equal for queries that differ only in values, limit and position: they share a statement. */
  shape: string
  /** The values of the parameters in the conditions. */
  values: Values
  /** Whether a caller who may list all rows reads the page from an index alone. Such statements are batched. */
  isQuick: boolean
  /** Whether PostgreSQL plans the statement for its values. */
  customPlan: boolean
}

/** The rows that a list may contain: those under a parent, and those that a rule lets the caller read. */
export interface ListScope {
  rule: Rule
  actor: Actor
  /** The id of the parent in the path; undefined if the resource has no parent. */
  parent: string | undefined
}

/** The rows of a list, and the position after which a page begins. */
export interface PageScope extends ListScope {
  position: readonly string[] | undefined
}

/** The part of a page that one statement reads. */
export interface ChunkScope extends PageScope {
  /** How many rows to read. */
  size: number
}
