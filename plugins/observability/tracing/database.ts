/** The database with a span for every statement of a request: what was done to which table, never with which values. */
import { type Attributes, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { Connection, Database } from '../../../drizzle/client/index.ts'

/** Runs `work` as a span of the request that runs here; where none does, it is just run. */
export type Within = <T>(
  name: string,
  options: { kind: SpanKind; attributes: Attributes },
  work: (span?: Span) => Promise<T>,
) => Promise<T>

const SYSTEM = { 'db.system.name': 'postgresql' }
const OPERATION = /^\s*(\w+)/
const TABLE = /\b(?:from|into|update)\s+"?([a-z_]+)"?/i

/** What a statement's text says without its values: `SELECT users`. */
function describe(text: string) {
  const operation = (OPERATION.exec(text)?.[1] ?? 'statement').toUpperCase()
  const table = TABLE.exec(text)?.[1]
  return {
    name: table === undefined ? operation : `${operation} ${table}`,
    attributes: {
      ...SYSTEM,
      'db.operation.name': operation,
      ...(table === undefined ? {} : { 'db.collection.name': table }),
    },
  }
}

/** SQLSTATE and the kind of error; its message may quote a row. */
function mark(span: Span | undefined, error: unknown): void {
  if (!(error instanceof Error) || span === undefined) return
  span.setStatus({ code: SpanStatusCode.ERROR })
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  span.setAttribute('error.type', code ?? error.name)
  if (code !== undefined) span.setAttribute('db.response.status_code', code)
}

async function marked<T>(span: Span | undefined, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    mark(span, error)
    throw error
  }
}

export function watchDatabase(database: Database, within: Within): Database {
  const watched = (connection: Connection): Connection['run'] => {
    return (text, params, options) => {
      const { name, attributes } = describe(text)
      return within(name, { kind: SpanKind.CLIENT, attributes }, (span) =>
        marked(span, connection.run(text, params, options)),
      )
    }
  }
  const { replicas } = database
  const transaction = { kind: SpanKind.INTERNAL, attributes: SYSTEM }
  return {
    ...database,
    run: watched(database),
    ...(replicas && {
      replicas: {
        ...replicas,
        getReader(userId: string) {
          const replica = replicas.getReader(userId)
          return replica && { run: watched(replica) }
        },
      },
    }),
    transaction: (work, limits) =>
      within('transaction', transaction, (span) =>
        marked(
          span,
          database.transaction((tx) => work({ ...tx, run: watched(tx) }), limits),
        ),
      ),
  }
}
