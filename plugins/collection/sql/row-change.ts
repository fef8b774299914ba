/** A statement that changes rows, and what it needs so that the change is recorded. */
import type { SQL } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Connection, RunOptions } from '../../../drizzle/client/types.ts'
import type { ChangeKind, RowsChange } from '../../outbox/recorder.ts'

export interface RowChange {
  kind: ChangeKind
  /** Distinguishes the statement from the others of its kind. */
  shape: string
  values: Values
  build(db: Connection): {
    change: RowsChange
    previous?: SQL
    /** Further columns of the changed rows, for `previous` and `order`. */
    former?: Record<string, SQL>
    order?: SQL
  }
  /** The columns of the rows to which it resolves. Default: all, without the search text. */
  returning?: Record<string, PgColumn>
  options?: RunOptions
}
