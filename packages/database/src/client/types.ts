/** The database as the product uses it (Drizzle's builders), and the clients under it: prepared statements, transactions. */
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import type { Load } from '../lib/semaphore.ts'
import type { RecentWriters } from './replicas/recent-writers.ts'

/** A parameter: dates as ISO text, JSON as JSON text. An array is a parameter of an array type. */
export type Param = string | number | boolean | null | readonly (string | number | boolean | null)[]

/**
 * A result row: `timestamptz`, `timestamp` and `date` as PostgreSQL's text in UTC (with microseconds), `int8` (and so
 * `count(*)`) as a number, `numeric` as text, `json` and `jsonb` parsed, arrays as arrays, all else as strings.
 */
export type Row = Record<string, unknown>

export interface RunOptions {
  /**
   * Whether the statement may share a connection and a network packet with others. For short reads, and for changes that
   * wait for no other transaction: those behind a statement that takes long wait for it.
   */
  canBatch?: boolean
  /**
   * Whether PostgreSQL plans the statement for its values each time (a custom plan). Without, it uses one generic plan
   * after a few executions, and the best plan for a rare search word is a slow one for a common word.
   */
  customPlan?: boolean
}

/** What runs statements: the pool, a transaction, a replica. */
export interface Queryable {
  /**
   * Runs one statement, prepared by its text; `$1`, `$2`, ... stand for its parameters.
   * @throws DatabaseUnavailable (see `errors.ts`) if no connection is free in time, the server does not answer, or the
   * statement took too long; SqlError for all other errors of the database
   */
  run(text: string, params?: readonly Param[], options?: RunOptions): Promise<Row[]>
}

export interface TransactionOptions {
  /** Milliseconds that one statement of the transaction may take; 0 for no limit (migrations). */
  statementTimeout?: number
  /** Milliseconds after which no further statement begins and the transaction is rolled back. Default: there is no limit. */
  maxMs?: number
  /**
   * Whether no further statement begins and the transaction is rolled back when another caller has waited for PGlite's only
   * connection for most of the time that it may wait. Servers ignore it.
   */
  isYielding?: boolean
  /** Milliseconds after `limitLocks` after which no further statement begins. Default: there is no limit. */
  maxLockedMs?: number
  /**
   * Whether all statements see one snapshot and none may write (REPEATABLE READ READ ONLY). PGlite ignores it: on its
   * only connection, no other transaction can commit before this one ends.
   */
  isSnapshot?: boolean
  /** How often a transaction that lost a deadlock is repeated. Default: 3. */
  maxRetries?: number
}

/** What `execute` resolves to. */
export interface RowsResult extends PgQueryResultHKT {
  type: this['row'][]
}

type Builders = '$count' | '$with' | 'delete' | 'insert' | 'select' | 'selectDistinct' | 'update' | 'with'

/** What runs the statements of a transaction. */
export interface TransactionClient extends Queryable {
  /**
   * Runs `work`, whose statements are those of this transaction. If it throws, its statements are undone and the transaction
   * goes on, also after a statement that failed. For one at a time.
   * @throws the error of `work`
   */
  savepoint<T>(work: () => Promise<T>): Promise<T>
  /**
   * Runs a hook once, right before the commit, with the last value that `update` has returned for its key. Hooks run in the
   * order of their names, so that transactions whose hooks lock rows do not deadlock.
   * @param update returns the new value. It must not change the former one: a savepoint that is undone restores it
   * @throws StaleReadError, when hooks run, if `run` resolves to false
   */
  beforeCommit<V>(key: object, hook: CommitHook<V>, update: (former: V | undefined) => V): void
  /** Runs the hooks now, for statements that have to see what they do. */
  runHooks(): Promise<void>
  /**
   * Begins the time of `maxLockedMs`, once, if the transaction has it: other transactions wait for its locks.
   * @param createError returns the error of a statement that would begin later
   */
  limitLocks(createError: () => Error): void
}

/** What a transaction does once, right before its commit. */
interface CommitHook<V> {
  name: string
  /** Returns whether what the transaction has read before still holds; it is repeated if not. */
  run(value: V): Promise<boolean>
}

/** Drizzle's builders over a pool, a transaction or a replica. */
export interface Connection extends Queryable, Pick<PgDatabase<RowsResult>, Builders | 'execute'> {}

/** Drizzle's builders over a transaction. */
export interface Transaction extends Connection, TransactionClient {}

/** The Drizzle database. */
export interface Database extends Connection, Omit<DatabaseClient, 'transaction'> {
  /** The client under it, for wrappers: `createDatabase({ ...database.$client, run })`. */
  readonly $client: DatabaseClient
  /** As that of the client, with Drizzle's builders. */
  transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>
}

export interface DatabaseClient extends Queryable {
  /** The engine: PGlite in this process, or a PostgreSQL server. */
  readonly kind: 'embedded' | 'server'
  /** The schema of the tables. */
  readonly schema: string
  /**
   * Runs `work` in one transaction, READ COMMITTED unless `options` choose a snapshot: commits if it resolves, rolls
   * back if it throws. If a statement failed outside of a savepoint, the transaction fails with that error, even if `work`
   * caught it. Inside, use only `tx`: `run` of the database itself would wait for a second connection, which PGlite does not have.
   * @throws the error of `work`; else as `run` does. If the connection is lost during COMMIT, it is unknown whether
   * the transaction was committed.
   */
  transaction<T>(work: (tx: TransactionClient) => Promise<T>, options?: TransactionOptions): Promise<T>
  /**
   * Runs a statement that cannot be in a transaction, such as `create index concurrently`, without a timeout, on a
   * connection that is opened for it. Absent with PGlite, which has only one connection.
   * @param searchPath of the connection, if it differs from that of the others
   */
  runAlone?(text: string, searchPath?: string): Promise<void>
  /**
   * Runs a query on a connection of its own (with PGlite: the only one). Concurrent calls share one query.
   * @throws DatabaseUnavailable if there is no answer within `timeout` milliseconds
   */
  ping(timeout: number): Promise<void>
  /** Returns the size of the pool, the connections in use, and the callers that wait for one. */
  getLoad(): Load
  /** Returns the milliseconds that a statement would now wait for a connection. */
  estimateWait(): number
  /** Present if reads can be sent to other servers. */
  readonly replicas?: Replicas
  /** Waits for running statements, then releases all connections, files and locks. Later statements are refused. */
  close(): Promise<void>
}

/** `new` before the first answer; `foreign`: not a standby, or one of another database. */
export type Standing = 'new' | 'up' | 'away' | 'behind' | 'foreign'

export interface Replicas {
  /**
   * Returns a replica for all reads of one request, or undefined if the primary must be read. The first statement that
   * fails on the replica, and all later ones, run on the primary.
   */
  getReader(userId: string): Connection | undefined
  readonly recentWriters: RecentWriters
  /** Requests by where they read from and why it was the primary; and statements that failed on a replica. */
  readonly counts: Readonly<Record<'replica' | 'afterWrite' | 'noReplica' | 'failed', number>>
  /**
   * Returns the states in the order of the configured addresses. `label` is the address without user and password,
   * `lag` the milliseconds since a moment at which the replica is known to have had all committed changes.
   */
  getStates(): readonly { label: string; standing: Standing; lag: number; load: Load }[]
  /** Calls the listener on each change of a standing, and immediately for each standing known so far. */
  onChange(listener: (label: string, standing: Standing, reason: string) => void): void
}
