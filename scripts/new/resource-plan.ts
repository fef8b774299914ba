/** What is asked about a new resource, and what the templates write. */
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
  'on-delete'?: string
  unique?: string
  filters?: string
  sorts?: string
  search?: string
  operations?: string
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

/** Members may read the rows of others in which the field has the value. */
export interface VisibleCondition {
  field: string
  value: string | boolean
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
  states: States | undefined
  /** Whether members may not change the status of their own rows. */
  isStatusForStaff: boolean
  /** The rows of others that members may read: all, or those that meet one of the conditions. */
  visible: 'all' | readonly VisibleCondition[]
  unique: readonly string[]
  filters: readonly string[]
  /** Besides `created_at` and `updated_at`. */
  sorts: readonly string[]
  search: readonly string[]
  /** Operations on one resource besides the six. */
  operations: readonly string[]
  references: readonly Reference[]
}

export interface Problem {
  flag: Flag
  message: string
}
