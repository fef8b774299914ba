/** What is asked about a new resource, and what the templates write. */
import type { Role } from '../../packages/database/src/application.ts'
import type { Field } from './fields.ts'
import type { Registered } from './registered.ts'
import type { States } from './states.ts'

/** The answers, by the names of the flags. An absent one takes its default. */
export interface Answers {
  name: string
  fields?: string
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
  singular?: string
  description?: string
}
export type Flag = keyof Answers

/** A column with a foreign key. */
export interface Reference {
  column: string
  to: Registered
  /** The export of the table, and its file in `drizzle`. */
  table: string
  file: string
  /** Whether rows are deleted with the row that they refer to. Otherwise that row cannot be deleted while they exist. */
  cascades: boolean
}

/** Members may read the rows in which the field has the value. */
export interface FieldCondition {
  field: string
  value: string | boolean
}

/** Callers who read or write the rows from which a path of relations leads to a row with their id. */
export interface OwnerPath {
  /** `organization.memberships.user_id` */
  path: string
  isWriting: boolean
  /** Of the row that has the id: one of them holds. */
  conditions: readonly { field: string; value: string }[]
  /** The resource of that row. */
  target: string
}

/** The roles that read and write a field; undefined for all. */
export interface Restriction {
  field: string
  read: readonly Role[] | undefined
  /** Default: those that read it. */
  write: readonly Role[] | undefined
}

/** What the templates write. */
export interface ResourcePlan {
  /** `reviews` */
  name: string
  /** `Review` */
  singular: string
  /** `Reviews` */
  plural: string
  /** The table in code: `reviews`. */
  variable: string
  /** The table in SQL: `reviews`. */
  table: string
  description: string
  /** The fields that clients may send, and last the status if there are states. */
  fields: readonly Field[]
  parent: Reference | undefined
  /** The column of the user whose row it is. */
  owner: Reference | undefined
  /** Whether owners create and change their rows; otherwise they only read them. */
  isOwnerWriting: boolean
  /** The conditions of which one holds for each of their own rows that owners read; none if they read all. */
  ownConditions: readonly FieldCondition[]
  ownerPaths: readonly OwnerPath[]
  states: States | undefined
  /** Whether members may not change the status of their own rows. */
  isStatusForStaff: boolean
  /** The rows of others that members may read: all, or those that meet one of the conditions. */
  visible: 'all' | readonly FieldCondition[]
  restrictions: readonly Restriction[]
  unique: readonly string[]
  filters: readonly string[]
  /** Besides `created_at` and `updated_at`. */
  sorts: readonly string[]
  search: readonly string[]
  /** Operations on one resource besides the six. */
  actions: readonly string[]
  references: readonly Reference[]
}

export interface Problem {
  flag: Flag
  message: string
}
