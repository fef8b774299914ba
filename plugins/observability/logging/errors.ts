/** What is logged of an error: its kind, code and place; of a database's never its text, which holds SQL and values. */

/** What a database says of an error that names things of the schema and no value, in postgres.js and in PGlite. */
const OF_SCHEMA = ['severity', 'routine', 'position']
const NAMED = ['schema', 'table', 'column', 'constraint'].flatMap((name) => [name, `${name}_name`])
const SQLSTATE = /^[0-9A-Z]{5}$/
const DEEPEST = 5

export interface LoggedError {
  type: string
  message: string
  code?: string | number
  stack: string
  cause?: LoggedError
  errors?: LoggedError[]
  [member: string]: unknown
}

/** Their own words hold neither SQL nor values (drizzle/client/errors.ts). */
const PLAIN = new Set(['SqlError', 'DatabaseUnavailable'])

/** Whether the error, or one that caused it, is a driver's: its message then is not ours to show. */
function isFromSql(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error) || depth > DEEPEST || PLAIN.has(error.name)) return false
  const own: Record<string, unknown> = { ...error }
  if ('query' in own || 'params' in own || 'parameters' in own || 'severity' in own) return true
  if (typeof own.code === 'string' && SQLSTATE.test(own.code) && !own.code.startsWith('E')) return true
  return isFromSql(error.cause, depth + 1)
}

/** The lines that say where, without the one that says what. */
function frames(stack: string | undefined): string {
  return (stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .join('\n')
}

function text(error: Error): Pick<LoggedError, 'message' | 'stack'> {
  if (isFromSql(error)) return { message: 'a statement failed', stack: frames(error.stack) }
  return { message: error.message, stack: error.stack ?? '' }
}

/** The serializer of `err`, `error` and `cause` in log lines. What is no error is named by its type alone. */
export function serializeError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error))
    return { type: typeof error, message: 'something else than an error was thrown', stack: '' }
  const own: Record<string, unknown> = { ...error }
  const logged: LoggedError = { type: error.name, ...text(error) }
  if (typeof own.code === 'string' || typeof own.code === 'number') logged.code = own.code
  const ofDatabase = 'severity' in own || PLAIN.has(error.name)
  for (const name of [...OF_SCHEMA, ...NAMED]) {
    if (ofDatabase && typeof own[name] === 'string') logged[name] = own[name]
  }
  if (depth >= DEEPEST) return logged
  if (error.cause !== undefined) logged.cause = serializeError(error.cause, depth + 1)
  if (error instanceof AggregateError) {
    logged.errors = error.errors.slice(0, DEEPEST).map((one: unknown) => serializeError(one, depth + 1))
  }
  return logged
}
