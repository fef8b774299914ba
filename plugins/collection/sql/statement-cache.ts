/** Statements with named values: made once for each shape, then run with the values of a request. */
import { is, Placeholder, Param as SqlParam, sql } from 'drizzle-orm'
import type { Connection, Param, RunOptions } from '../../../drizzle/client/types.ts'
import type { Row } from '../definition.ts'

export type Values = Readonly<Record<string, unknown>>

interface Statement {
  text: string
  /** What each parameter is, from the values of a request. */
  params: readonly ((values: Values) => unknown)[]
}

/** As Drizzle's `fillPlaceholders`, save that NULL stays what it is: to a column's encoder it would be JSON's null. */
function reader(param: unknown): (values: Values) => unknown {
  if (is(param, Placeholder)) {
    const { name } = param
    return (values) => values[name]
  }
  if (is(param, SqlParam) && is(param.value, Placeholder)) {
    const { value, encoder } = param
    const { name } = value
    return (values) => (values[name] === null ? null : encoder.mapToDriverValue(values[name]))
  }
  return () => param
}

const MOST_STATEMENTS = 2000

/** Statements by the key of their shape. A caller can ask for many shapes: the oldest make room. */
export function createStatements() {
  const statements = new Map<string, Statement>()
  return (key: string, make: () => { toSQL(): { sql: string; params: unknown[] } }): Statement => {
    const known = statements.get(key)
    if (known) return known
    const { sql: text, params } = make().toSQL()
    const statement = { text, params: params.map(reader) }
    if (statements.size >= MOST_STATEMENTS) statements.delete(statements.keys().next().value ?? '')
    statements.set(key, statement)
    return statement
  }
}

export const run = (
  connection: Connection,
  { text, params }: Statement,
  values: Values,
  options?: RunOptions,
): Promise<Row[]> =>
  connection.run(text, params.map((read) => read(values)) as Param[], options) as Promise<Row[]>

/** Where a value of that name goes. */
export const value = (name: string) => sql.placeholder(name)
