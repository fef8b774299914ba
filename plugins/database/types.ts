/** What the rest of the house knows of a database: one prepared statement at a time, transactions, a ping. */

/** A value as it goes to the server: dates as ISO text, JSON as JSON text, arrays as PostgreSQL array text. */
export type Param = string | number | boolean | null

/**
 * A row as it comes back: `timestamptz` and `date` as PostgreSQL's own text in UTC (microseconds kept),
 * `int8` as a number, `json` and `jsonb` parsed, `uuid` and `text` as strings.
 */
export type Row = Record<string, unknown>

/** A statement's text, compiled once per shape; `$1`, `$2`, ... stand for its values. */
export interface Connection {
  /**
   * Runs one statement, prepared by its text.
   * @throws ServiceUnavailable (see `plugins/errors.ts`) when no connection is free in time or the server is away
   * @throws DatabaseError of the driver, with SQLSTATE in `code`, for all else
   */
  run(text: string, params?: readonly Param[]): Promise<Row[]>
}

export interface Database extends Connection {
  /** Which engine answers: the embedded one, or a server. */
  readonly kind: 'embedded' | 'server'
  /** Runs `work` in one READ COMMITTED transaction: commits when it resolves, rolls back when it throws. */
  transaction<T>(work: (tx: Connection) => Promise<T>): Promise<T>
  /**
   * A real query on a connection of its own (with PGlite: the only one), one at a time: a second call
   * while one runs shares its answer.
   * @throws when there is no answer within `timeout` milliseconds
   */
  ping(timeout: number): Promise<void>
  /** Waits for what runs, then lets go of every connection, file and lock. */
  close(): Promise<void>
}
