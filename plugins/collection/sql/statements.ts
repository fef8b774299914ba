/** Builds each SQL statement once for its shape, and runs it with the values of a request. */
import { type DriverValueEncoder, is, Placeholder, Param as SqlParam, sql } from 'drizzle-orm'
import type { Connection, Param, RunOptions } from '../../../drizzle/client/types.ts'
import type { Row } from '../definition.ts'

/** The values of a request, by the names of the parameters. */
export type Values = Readonly<Record<string, unknown>>

/** A query of Drizzle. */
export interface Query {
  toSQL(): { sql: string; params: unknown[] }
}

/** A parameter of a statement: a value of the request by its name, encoded by its column, or else a fixed value. */
interface StatementParam {
  name?: string
  encoder?: DriverValueEncoder<unknown, unknown>
  fixed: Param
}

interface Statement {
  text: string
  params: readonly StatementParam[]
}

/** @throws TypeError for a value that no column has encoded */
function toParam(value: unknown): Param {
  if (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'number' ||
    typeof value === 'boolean'
  ) {
    return value
  }
  throw new TypeError(`A parameter cannot be of the type ${typeof value}`)
}

function toStatementParam(template: unknown): StatementParam {
  if (is(template, Placeholder)) return { name: template.name, fixed: null }
  if (is(template, SqlParam) && is(template.value, Placeholder)) {
    return { name: template.value.name, encoder: template.encoder, fixed: null }
  }
  return { fixed: toParam(template) }
}

/** Clients choose the shapes, so their number has to be limited. */
const MAX_STATEMENTS = 2_000

/** Creates the function that runs statements, with its cache. Beyond MAX_STATEMENTS, the oldest statement is dropped. */
export function createStatements() {
  const statements = new Map<string, Statement>()

  const add = (key: string, query: Query): Statement => {
    const { sql: text, params } = query.toSQL()
    const statement = { text, params: params.map(toStatementParam) }
    if (statements.size >= MAX_STATEMENTS) statements.delete(statements.keys().next().value ?? '')
    statements.set(key, statement)
    return statement
  }

  /**
   * Runs a statement with the values of a request.
   * @param key the statement's shape
   * @param build builds the statement of that shape, with the columns of `R`
   */
  return <R extends object = Row>(
    connection: Connection,
    key: string,
    values: Values,
    build: () => Query,
    options?: RunOptions,
  ): Promise<R[]> => {
    const { text, params } = statements.get(key) ?? add(key, build())
    const bound: Param[] = []
    for (const { name, encoder, fixed } of params) {
      const value = name === undefined ? fixed : values[name]
      // The encoder of a JSON column would turn NULL into JSON's null.
      bound.push(toParam(value === null || !encoder ? value : encoder.mapToDriverValue(value)))
    }
    // The columns of R are those that the statement was built with.
    return connection.run(text, bound, options) as Promise<R[]>
  }
}

export type RunStatement = ReturnType<typeof createStatements>

/** Marks the place of a named value in a statement. */
export const param = (name: string) => sql.placeholder(name)
