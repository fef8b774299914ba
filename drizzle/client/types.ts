/** What the rest of the house knows of a database: one prepared statement at a time, transactions, a ping. */

import type { Load } from '../../lib/semaphore.ts'
import type { Replicas } from './replicas/replicas.ts'

/** A value as it goes to the server: dates as ISO text, JSON as JSON text, arrays as PostgreSQL array text. */
export type Param = string | number | boolean | null

/**
 * A row as it comes back: `timestamptz`, `timestamp` and `date` as PostgreSQL's own text in UTC (microseconds
 * kept), `int8` (and so `count(*)`) as a number, `numeric` as text, `json` and `jsonb` parsed, arrays as
 * arrays, `uuid` and `text` as strings.
 */
export type Row = Record<string, unknown>

export interface RunOptions {
  /**
   * Whether it reads what an index finds at once, or writes one row and, but for that row's sake, waits for nothing:
   * such statements may share a connection, each behind the one before.
   */
  quick?: boolean
  /**
   * Whether it is planned for its values each time. PostgreSQL plans what it has seen a few times once for all values,
   * and the way to a rare word is none to a common one.
   */
  custom?: boolean
}

/** A statement's text, compiled once per shape; `$1`, `$2`, ... stand for its values. */
export interface Connection {
  /**
   * Runs one statement, prepared by its text.
   * @throws DatabaseUnavailable (see `errors.ts`) when no connection is free in time, the server is away, or
   * the statement took too long
   * @throws SqlError for all else that the database refuses, with SQLSTATE in `code`
   */
  run(text: string, params?: readonly Param[], options?: RunOptions): Promise<Row[]>
}

export interface Limits {
  /** Milliseconds one statement of the transaction may take; 0 for as long as it likes (migrations). */
  statementTimeout?: number
}

export interface Database extends Connection {
  /** Which engine answers: the embedded one, or a server. */
  readonly kind: 'embedded' | 'server'
  /**
   * Runs `work` in one READ COMMITTED transaction: commits when it resolves, rolls back when it throws. A
   * statement that failed dooms the whole, also when `work` swallowed its error: that error is thrown. Use only
   * `tx` inside: a `run` of the database itself would wait for a second connection, and with PGlite in vain.
   * @throws what `work` throws; else as `run` does. When the connection is lost during the commit, whether it
   * happened is not known.
   */
  transaction<T>(work: (tx: Connection) => Promise<T>, limits?: Limits): Promise<T>
  /**
   * A real query on a connection of its own (with PGlite: the only one), one at a time: a second call
   * while one runs shares its answer.
   * @throws DatabaseUnavailable when there is no answer within `timeout` milliseconds
   */
  ping(timeout: number): Promise<void>
  /** How many connections there are, how many are lent, and how many wait for one; absent where nobody counts. */
  load?(): Load
  /** Milliseconds that a statement may expect to wait for a connection now. */
  delay(): number
  /** Other servers that answer reads; absent where there are none. */
  readonly replicas?: Replicas
  /** Waits for what runs, then lets go of every connection, file and lock. What comes later is refused. */
  close(): Promise<void>
}
