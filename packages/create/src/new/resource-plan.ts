/** What a new resource is: the answers of the command line, and the plan that the templates write. */
import type { States } from './states.ts'
import type { Field } from './types.ts'

/** The name, and the texts of the options. An absent one takes its default. */
export interface Answers {
  name: string
  fields?: string
  from?: string
  key?: string
  parent?: string
  owner?: string
  states?: string
  'states-by'?: string
  visible?: string
  restrict?: string
  'on-delete'?: string
  unique?: string
  filters?: string
  sorts?: string
  search?: string
  actions?: string
  aggregates?: string
  singular?: string
  description?: string
  isRestorable?: boolean
}
export type Option = Exclude<keyof Answers, 'isRestorable'>

/** A resource of the application, to which a new one may refer. */
export interface KnownResource {
  /** The name in paths: `user-profiles`. */
  name: string
  singular: string
  plural: string
  /** The export of the table, the module that exports it, and its name in SQL; undefined if none is exported. */
  table: { name: string; module: string; sqlName: string } | undefined
  isNested: boolean
  filters: readonly string[]
  /** The names of its relations, inverse ones included. */
  relations: readonly string[]
  /** Whether members may read its rows, and so refer to them. */
  isForMembers: boolean
}

/** A column with a foreign key. */
export interface Reference {
  column: string
  to: KnownResource
  /** The export of the table. */
  table: string
  /** Whether rows are deleted with the row that they refer to. Otherwise that row cannot be deleted while they exist. */
  cascades: boolean
}

/** A field has the value. */
export interface Condition {
  field: string
  value: string | boolean
}

/** Callers who read or write the rows from which a path of relations leads to a row with their id. */
export interface OwnerPath {
  /** `organization.memberships.user_id` */
  path: string
  isWriting: boolean
  /** Of the row that has the id: one of them holds. */
  conditions: readonly Condition[]
}

/** The roles that read and write a field; undefined for all. */
export interface Restriction {
  field: string
  read: readonly string[] | undefined
  /** Default: those that read it. */
  write: readonly string[] | undefined
}

/** What is known of a view. */
interface ExistingView {
  /** The column that is the id of a row. */
  key: string
  isMaterialized: boolean
  /** Whether searches look into its column `search`. */
  isSearched: boolean
  /** The filters that read all rows of a table. */
  scans: readonly string[]
}

/** A table, or a view, that exists already. */
export interface ExistingTable {
  sqlName: string
  view?: ExistingView
  /** The columns that every resource has, as far as the table has them. */
  commonColumns: readonly string[]
  /** The name of the index that `unique` has. */
  uniqueIndex: string | undefined
  checks: readonly { name: string; expression: string; fields: readonly string[] }[]
  /** The foreign keys, as clauses of `create table`. */
  foreignKeys: readonly string[]
}

/** What the templates write. */
export interface ResourcePlan {
  /** `reviews` */
  name: string
  /** `Review` */
  singular: string
  /** The table in code: `reviews`. */
  variable: string
  /** The table in SQL: `reviews`. */
  table: string
  description: string
  /** All fields, and last the status if there are states. */
  fields: readonly Field[]
  parent: Reference | undefined
  /** The column of the user whose row it is. */
  owner: Reference | undefined
  /** Whether owners create and change their rows; otherwise they only read them. */
  isOwnerWriting: boolean
  /** The conditions of which one holds for each of their own rows that owners read; none if they read all. */
  ownConditions: readonly Condition[]
  ownerPaths: readonly OwnerPath[]
  states: States | undefined
  /** Whether members may not change the status of their own rows. */
  isStatusForStaff: boolean
  /** The rows of others that members may read: all, or those that meet one of the conditions. */
  visible: 'all' | readonly Condition[]
  restrictions: readonly Restriction[]
  unique: readonly string[]
  filters: readonly string[]
  /** Besides `created_at` and `updated_at`. */
  sorts: readonly string[]
  search: readonly string[]
  /** Operations on one resource besides the six. */
  actions: readonly string[]
  /** What aggregates are computed of; undefined without them. */
  aggregates: { measures: readonly string[]; groups: readonly string[] } | undefined
  /** Whether the staff restores rows that were deleted. */
  isRestorable: boolean
  /** Those of the parent, the owner and the fields. */
  references: readonly Reference[]
  existing: ExistingTable | undefined
}
