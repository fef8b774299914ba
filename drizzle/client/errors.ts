/** What can go wrong with a database, in two classes, the same for both engines: it is away, or it refused. */

/** The database cannot answer now; the same request may succeed in `retryAfter` seconds. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable'
  /** Seconds. */
  readonly retryAfter = 2
  /** SQLSTATE, when the server refused one statement; absent when there was no connection, or it ended. */
  readonly code?: string

  constructor(message: string, options: { cause?: unknown; code?: string } = {}) {
    super(message, options)
    if (options.code) this.code = options.code
  }
}

/** A statement was refused. The message names neither SQL nor values; `cause` has the server's own words. */
export class SqlError extends Error {
  override readonly name = 'SqlError'
  /** SQLSTATE, five characters: `23505` is a unique violation. */
  readonly code: string
  readonly constraint?: string
  readonly table?: string

  constructor(
    code: string,
    names: { constraint?: string | undefined; table?: string | undefined },
    cause: Error,
  ) {
    super(`PostgreSQL refused a statement: ${code}${names.constraint ? ` (${names.constraint})` : ''}`, {
      cause,
    })
    this.code = code
    if (names.constraint) this.constraint = names.constraint
    if (names.table) this.table = names.table
  }
}

/**
 * SQLSTATEs that say "not now" or "not here" rather than "not this": 08 connection, 28 and 3D sign-in and name
 * of the database (both can only come while connecting), 53 resources, 58030 a disk that fails, 57P0x shutdown,
 * 57014 cancelled, which is the statement timeout, 25P03 and 25P04 too long in a transaction, 25006 a primary that
 * has become a standby; 40001, 40P01 and 55P03, in the way of others, after all tries of `retry.ts`.
 */
const AWAY = /^(08|28|3D|53)|^58030$|^57(014|P0[1-5])$|^25(P03|P04|006)$|^40(001|P01)$|^55P03$/

/** Mistakes of ours that postgres.js reports with a code as if the connection had failed. */
const OURS = new Set(['UNDEFINED_VALUE', 'MAX_PARAMETERS_EXCEEDED', 'NOT_TAGGED_CALL', 'UNSAFE_TRANSACTION'])

/** A driver's error as one of ours; what no driver threw comes back as it is. */
export function translate(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof SqlError || error instanceof DatabaseUnavailable)
    return error
  const code = text(error, 'code')
  if (code === undefined || OURS.has(code)) return error
  const severity = text(error, 'severity')
  const fromServer = severity !== undefined
  if (!fromServer || AWAY.test(code)) {
    const why = code === '57014' ? 'a statement took too long' : code
    return new DatabaseUnavailable(`The database is unavailable (${why})`, {
      cause: bare(error),
      ...(severity === 'ERROR' && { code }),
    })
  }
  return new SqlError(
    code,
    // postgres.js writes `constraint_name`, PGlite `constraint`.
    {
      constraint: text(error, 'constraint_name') ?? text(error, 'constraint'),
      table: text(error, 'table_name') ?? text(error, 'table'),
    },
    bare(error),
  )
}

const KEPT = ['code', 'severity', 'hint', 'position', 'routine', 'errno', 'syscall', 'address', 'port']

/**
 * The driver's error without what a log must not see: both drivers hang the SQL and its values on it, and
 * `detail` and `where` quote whole rows.
 */
export function bare(error: Error): Error {
  const copy = new Error(error.message)
  if (error.stack) copy.stack = error.stack
  const known = KEPT.flatMap((key) => (text(error, key) === undefined ? [] : [[key, text(error, key)]]))
  return Object.assign(copy, Object.fromEntries(known))
}

function text(error: object, key: string): string | undefined {
  const value: unknown = Reflect.get(error, key)
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}
