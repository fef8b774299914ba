/** The table that a resource is stored in, the columns that its lists sort by, and its relations to other tables. */
import type { SQL } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'

/** A table that a resource can be stored in. */
export type ResourceTable = PgTable & {
  id: PgColumn
  revision: PgColumn
  created_at: PgColumn
  updated_at: PgColumn
}

/** The column that a field sorts by; for a nullable column, an expression without NULL for each direction. */
export type SortKey =
  | PgColumn
  | {
      column: PgColumn
      /** NULL is greater than every value, so that it comes last. */
      ascending: SQL
      /** NULL is less than every value, so that it comes last. */
      descending: SQL
      /** The text that stands for NULL in a cursor. */
      nulls: { ascending: string; descending: string }
      /** What `ascending` puts before a value, for types that have no greatest value. */
      prefix?: string
    }

/** A relation to the rows of another table. */
export interface RelationDefinition {
  /** The table of the related resource. While no resource is registered that is stored in it, there is no such relation. */
  to: ResourceTable
  /** The column of this table. */
  local: string
  /** The column of the related table. Without a join table, it equals `local`. */
  foreign: string
  /** A join table, with its columns that equal `local` and `foreign`. */
  through?: { table: PgTable; local: PgColumn; foreign: PgColumn }
  many: boolean
  /** To-many: includes all related rows, not only the 20 newest. */
  all?: boolean
}
