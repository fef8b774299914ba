/** Builds each SQL statement once for its shape, and runs it with the values of a request. */
import { is, Placeholder, Param as SqlParam, sql } from 'drizzle-orm'
import type { Connection, Param, RunOptions } from '../../../drizzle/client/types.ts'
import type { Row } from '../definition.ts'

/** The values of a request, by the names of the parameters. */
export type Values = Readonly<Record<string, unknown>>

/** A query of Drizzle. */
interface Query {
  toSQL(): { sql: string; params: unknown[] }
}

interface Statement {
  text: string
  /** Return each parameter from the values of a request. */
  params: readonly ((values: Values) => unknown)[]
}

/** Like Drizzle's `fillPlaceholders`, but keeps NULL: the encoder of a JSON column would turn it into JSON's null. */
function toParamReader(template: unknown): (values: Values) => unknown {
  if (is(template, Placeholder)) {
    const { name } = template
    return (values) => values[name]
  }
  if (is(template, SqlParam) && is(template.value, Placeholder)) {
    const { value, encoder } = template
    const { name } = value
    return (values) => (values[name] === null ? null : encoder.mapToDriverValue(values[name]))
  }
  return () => template
}

/** Clients choose the shapes, so their number has to be limited. */
const MAX_STATEMENTS = 2_000

/** Creates a cache of statements by the key of their shape. Beyond MAX_STATEMENTS, the oldest statement is dropped. */
export function createStatementCache() {
  const statements = new Map<string, Statement>()
  return (key: string, build: () => Query): Statement => {
    const known = statements.get(key)
    if (known) return known
    const { sql: text, params } = build().toSQL()
    const statement = { text, params: params.map(toParamReader) }
    if (statements.size >= MAX_STATEMENTS) statements.delete(statements.keys().next().value ?? '')
    statements.set(key, statement)
    return statement
  }
}

export type StatementCache = ReturnType<typeof createStatementCache>

export const runStatement = (
  connection: Connection,
  { text, params }: Statement,
  values: Values,
  options?: RunOptions,
): Promise<Row[]> =>
  connection.run(text, params.map((read) => read(values)) as Param[], options) as Promise<Row[]>

/** Marks the place of a named value in a statement. */
export const param = (name: string) => sql.placeholder(name)
