/** Serializes errors for the log, without the messages of database errors that contain SQL or values. */
import { isRaised } from './raised.ts'

/** Fields of a database error that contain no values, as named by postgres.js and by PGlite. */
const DIAGNOSTIC_FIELDS = [
  ...['severity', 'routine', 'position'],
  ...['schema', 'table', 'column', 'constraint'].flatMap((name) => [name, `${name}_name`]),
]
const SQLSTATE = /^[0-9A-Z]{5}$/
const MAX_CAUSE_DEPTH = 5

/**
 * Syntax error or access rule violation: a mistake in a statement or in the schema, such as a column that does not exist.
 * The message and the hint name objects of the schema, and no values: values are parameters of the statements.
 */
const STATEMENT_MISTAKE = /^42[0-9A-Z]{3}$/

interface LoggedError {
  type: string
  message: string
  code?: string | number
  stack: string
  cause?: LoggedError
  errors?: LoggedError[]
  [field: string]: unknown
}

/** Errors whose messages contain neither SQL nor values (`client/errors.ts` of `@resource-api/database`). */
const SAFE_ERROR_NAMES = new Set(['SqlError', 'DatabaseUnavailable'])

/** Returns whether the error or one of its causes comes from a database driver, whose messages must not be logged. */
function isDriverError(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error) || depth > MAX_CAUSE_DEPTH || SAFE_ERROR_NAMES.has(error.name)) return false
  const own: Record<string, unknown> = { ...error }
  if ('query' in own || 'params' in own || 'parameters' in own || 'severity' in own) return true
  if (typeof own.code === 'string' && SQLSTATE.test(own.code) && !own.code.startsWith('E')) return true
  return isDriverError(error.cause, depth + 1)
}

/** Returns whether the database refused the statement itself, or a function of the application did, as a driver reports it. */
const isLoggable = ({ severity, code }: Record<string, unknown>): boolean =>
  typeof severity === 'string' && typeof code === 'string' && (STATEMENT_MISTAKE.test(code) || isRaised(code))

/** The serializer of `err`, `error` and `cause` in log lines. Of a value that is no error, only the type is logged. */
export function serializeError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error))
    return { type: typeof error, message: 'the thrown value is not an Error', stack: '' }
  const own: Record<string, unknown> = { ...error }
  const { name: type, message, stack = '' } = error
  const isSecret = isDriverError(error) && !isLoggable(own)
  const frames = () => stack.split('\n').filter((line) => /^\s+at /.test(line))
  const logged: LoggedError = isSecret
    ? { type, message: 'database statement failed', stack: frames().join('\n') }
    : { type, message, stack }
  if (typeof own.code === 'string' || typeof own.code === 'number') logged.code = own.code
  if (isLoggable(own) && typeof own.hint === 'string') logged.hint = own.hint
  const isDatabaseError = 'severity' in own || SAFE_ERROR_NAMES.has(error.name)
  for (const name of DIAGNOSTIC_FIELDS) {
    if (isDatabaseError && typeof own[name] === 'string') logged[name] = own[name]
  }
  if (depth >= MAX_CAUSE_DEPTH) return logged
  if (error.cause !== undefined) logged.cause = serializeError(error.cause, depth + 1)
  if (error instanceof AggregateError)
    logged.errors = error.errors.slice(0, MAX_CAUSE_DEPTH).map((each) => serializeError(each, depth + 1))
  return logged
}
