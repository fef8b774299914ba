/**
 * The two errors of the database client, the same for both engines: the database is unavailable, or it refused a
 * statement.
 */

/** The database cannot answer now. The same request may succeed after `retryAfter` seconds. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'
  /** Seconds. */
  readonly retryAfter = 2
  /** SQLSTATE if the server answered with an error; absent if there was no connection, or it was lost. */
  readonly code?: string

  constructor(message: string, options: { cause?: unknown; code?: string } = {}) {
    super(message, options)
    if (options.code) this.code = options.code
  }
}

/** SQLSTATE serialization_failure. */
export const SERIALIZATION_FAILURE = '40001'

/** No connection became free in time: other requests hold all of them. */
export class PoolExhausted extends DatabaseUnavailable {}

/** The transaction has taken longer than its `maxMs`. */
export class TransactionTimeout extends DatabaseUnavailable {}

/** A transaction with `isYielding` has given the only connection back to another caller. */
export class TransactionYielded extends DatabaseUnavailable {}

/** What a transaction has read does not hold any more. The transaction is repeated, as after a serialization failure. */
export class StaleReadError extends DatabaseUnavailable {
  constructor() {
    super('Another transaction has changed what this one has read', { code: SERIALIZATION_FAILURE })
  }
}

/** The database refused a statement. The message contains neither SQL nor values; `cause` has the server's message. */
export class SqlError extends Error {
  override readonly name = 'SqlError'
  /** SQLSTATE, such as `23505` for a unique violation. */
  readonly code: string
  readonly constraint?: string
  readonly table?: string
  /** The schema of the table. */
  readonly schema?: string
  /** The names of the columns of a violated foreign key, or of the column that is NOT NULL. */
  readonly columns?: readonly string[]

  constructor(
    code: string,
    {
      constraint,
      table,
      schema,
      columns,
    }: {
      constraint?: string | undefined
      table?: string | undefined
      schema?: string | undefined
      columns?: readonly string[] | undefined
    },
    cause: Error,
  ) {
    super(`PostgreSQL refused a statement: ${code}${constraint ? ` (${constraint})` : ''}`, { cause })
    this.code = code
    if (constraint) this.constraint = constraint
    if (table) this.table = table
    if (schema) this.schema = schema
    if (columns) this.columns = columns
  }
}

/**
 * SQLSTATEs that do not concern the statement itself: 08 connection, 28 and 3D authentication and name of the
 * database (both occur only while connecting), 53 insufficient resources, 58030 I/O error, 57P0x shutdown, 57014
 * canceled, which is the statement timeout, 25P03 and 25P04 transaction timeouts, 25006 a primary that has become a
 * standby; 40001, 40P01 and 55P03 conflicts with concurrent transactions, after all retries of `retry.ts`.
 */
const UNAVAILABLE_CODES = /^(08|28|3D|53)|^58030$|^57(014|P0[1-5])$|^25(P03|P04|006)$|^40(001|P01)$|^55P03$/

/** Programming errors that postgres.js reports with a code, as it does for connection errors. */
const PROGRAMMING_ERROR_CODES =
  /^(UNDEFINED_VALUE|MAX_PARAMETERS_EXCEEDED|NOT_TAGGED_CALL|UNSAFE_TRANSACTION)$/

/**
 * Returns the name of the constraint in an error of Citus, which passes on the message of a node but not its other fields,
 * and appends the number of the shard to the name.
 */
const findShardConstraint = ({ message }: Error): string | undefined =>
  /constraint "([^"]+)_\d{6,}"/.exec(message)?.[1]

/** Returns a driver's error as DatabaseUnavailable or SqlError. Other errors are returned unchanged. */
export function toDatabaseError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof SqlError || error instanceof DatabaseUnavailable)
    return error
  const code = readText(error, 'code')
  if (code === undefined || PROGRAMMING_ERROR_CODES.test(code)) return error
  const cause = redactError(error)
  const severity = readText(error, 'severity')
  // An error without a severity is not from the server.
  if (severity === undefined || UNAVAILABLE_CODES.test(code)) {
    const reason = code === '57014' ? 'a statement took too long' : code
    const message = `The database is unavailable (${reason})`
    return new DatabaseUnavailable(message, { cause, ...(severity === 'ERROR' && { code }) })
  }
  // postgres.js writes `constraint_name`, PGlite `constraint`.
  const constraint =
    readText(error, 'constraint_name') ?? readText(error, 'constraint') ?? findShardConstraint(error)
  const table = readText(error, 'table_name') ?? readText(error, 'table')
  const schema = readText(error, 'schema_name') ?? readText(error, 'schema')
  const column = readText(error, 'column_name') ?? readText(error, 'column')
  const columns = column === undefined ? readKeyColumns(readText(error, 'detail')) : [column]
  return new SqlError(code, { constraint, table, schema, columns }, cause)
}

/** Returns whether the connection was lost. An error that the server answered leaves the connection intact. */
export const isConnectionLoss = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.code === undefined

/** Returns whether the server ended a statement that took too long. A smaller one may succeed. */
export const isStatementTimeout = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.code === '57014'

/** SQLSTATE lock_not_available. */
const LOCK_NOT_AVAILABLE = '55P03'

/** Returns whether the server ended a statement that waited too long for a lock. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.code === LOCK_NOT_AVAILABLE

/** SQLSTATEs of conflicts with concurrent transactions: also deadlock_detected. */
const CONFLICT_CODES: readonly (string | undefined)[] = [LOCK_NOT_AVAILABLE, '40P01', SERIALIZATION_FAILURE]

/** Returns what other requests held too long, if the database itself has not failed. */
export function getContention(error: DatabaseUnavailable): 'lock' | 'pool' | undefined {
  if (error instanceof PoolExhausted) return 'pool'
  return CONFLICT_CODES.includes(error.code) ? 'lock' : undefined
}

const SAFE_FIELDS = ['code', 'severity', 'hint', 'position', 'routine', 'errno', 'syscall', 'address', 'port']

/**
 * Returns a copy of the driver's error without data that must not be logged: both drivers attach the SQL and its
 * values, and `detail` and `where` quote whole rows.
 */
export function redactError(error: Error): Error {
  const copy = new Error(error.message)
  if (error.stack) copy.stack = error.stack
  for (const field of SAFE_FIELDS) {
    const text = readText(error, field)
    if (text !== undefined) Object.assign(copy, { [field]: text })
  }
  return copy
}

/** Returns the columns of a key: `Key (user_id)=(1) is not present in table "users".`, in the language of the server. */
const readKeyColumns = (detail = ''): string[] | undefined =>
  /^[^(]*\(([^()=]+)\)=\(/.exec(detail)?.[1]?.split(', ')

function readText(error: object, field: string): string | undefined {
  const value: unknown = Reflect.get(error, field)
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}
