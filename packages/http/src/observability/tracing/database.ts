/** Wraps the database so that each statement of a request has a span with its operation and table, but without values. */
import { type Attributes, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { type Database, getErrorCode } from '@resource-api/database'
import { wrapDatabase } from '@resource-api/database/client'

/** Runs `work` within a span of the current request; without a request it runs `work` without a span. */
export type RunInSpan = <T>(
  name: string,
  options: { kind: SpanKind; attributes: Attributes },
  work: (span?: Span) => Promise<T>,
) => Promise<T>

const DB_SYSTEM = { 'db.system.name': 'postgresql' }
/** A change and its event are one statement, in which the change comes first. */
const OPERATION = /^\s*(?:with changed as \()?(\w+)/
const TABLE = /\b(?:from|into|update)\s+"?([a-z_]+)"?/i

/** Returns the span name, such as `SELECT users`, and the attributes of a statement. */
function describeStatement(text: string) {
  const operation = (OPERATION.exec(text)?.[1] ?? 'statement').toUpperCase()
  const table = TABLE.exec(text)?.[1]
  return {
    name: table === undefined ? operation : `${operation} ${table}`,
    attributes: {
      ...DB_SYSTEM,
      'db.operation.name': operation,
      ...(table === undefined ? {} : { 'db.collection.name': table }),
    },
  }
}

/** Records the SQLSTATE or the type of an error, but not its message, which may quote a row. */
async function recordFailure<T>(span: Span | undefined, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const code = getErrorCode(error)
    span?.setStatus({ code: SpanStatusCode.ERROR })
    span?.setAttribute('error.type', code ?? (error instanceof Error ? error.name : typeof error))
    if (code !== undefined) span?.setAttribute('db.response.status_code', code)
    throw error
  }
}

export const traceDatabase = (database: Database, runInSpan: RunInSpan): Database =>
  wrapDatabase(database, {
    statement(text, run) {
      const { name, attributes } = describeStatement(text)
      return runInSpan(name, { kind: SpanKind.CLIENT, attributes }, (span) => recordFailure(span, run()))
    },
    transaction: (run) =>
      runInSpan('transaction', { kind: SpanKind.INTERNAL, attributes: DB_SYSTEM }, (span) =>
        recordFailure(span, run()),
      ),
  })
