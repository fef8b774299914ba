/**
 * Prepared statements: built once, run on any connection.
 *
 * - A statement that runs often is a constant of its module, whose text Drizzle builds at the first call only:
 *
 *       const findSession = prepare((db) =>
 *         db.select({ user_id: sessions.user_id, role: users.role }).from(sessions)
 *           .innerJoin(users, eq(users.id, sessions.user_id)).where(eq(sessions.id, sql.placeholder('id'))))
 *       const [session] = await findSession(tx, { id })
 *
 * - A rare statement runs as it is: `await tx.update(users).set({ role }).where(eq(users.id, id))`.
 * - SQL that the builder lacks refers to tables and columns, never to bare names:
 *   `db.execute<{ count: number }>(sql`select count(*) from ${users} where ${users.role} = ${role}`)`.
 * - A row has its columns by their own names; every other selected expression is named after its key: `.as('count')`. Other
 *   names work too, by a query around the statement.
 * - Values of any number are one parameter, an array: `isAnyOf(users.id, sql.placeholder('ids'))` (`expressions.ts`).
 *   `inArray` makes a text for each length, and a connection with more than 1,000 texts is replaced.
 * - `canBatch` and `customPlan` are options of `prepare`; dates are text; `count(*)` is a number.
 */
import { type DriverValueEncoder, Param as EncodedParam, is, Placeholder, type Query } from 'drizzle-orm'
import type { Connection, Param, RunOptions } from './types.ts'

/** The values of placeholders by their names. */
export type Values = Readonly<Record<string, unknown>>

/** The text of a statement that Drizzle built, and how its parameters are bound to values. */
export class Statement {
  readonly text: string
  /** A value by its placeholder's name, encoded by its column; or else a fixed value. */
  readonly #params: { name?: string; encoder?: DriverValueEncoder<unknown, unknown>; fixed?: unknown }[]

  constructor({ sql, params }: Query) {
    this.text = sql
    this.#params = params.map((param) => {
      if (is(param, Placeholder)) return { name: param.name }
      const isEncoded = is(param, EncodedParam) && is(param.value, Placeholder)
      return isEncoded ? { name: param.value.name, encoder: param.encoder } : { fixed: param }
    })
  }

  /** Returns the values of `$1`, `$2`, ... */
  bind(values: Values = {}): Param[] {
    const bound: unknown[] = []
    for (const { name, encoder, fixed } of this.#params) {
      const value = name === undefined ? fixed : values[name]
      // The encoder of a JSON column would turn NULL into JSON's null, which is why Drizzle's `fillPlaceholders` does not do.
      bound.push(value === null || !encoder ? value : encoder.mapToDriverValue(value))
    }
    // `toTextValues` refuses what is no parameter.
    return bound as Param[]
  }
}

/** A statement of Drizzle's builders, or of `execute`. */
type Buildable = PromiseLike<unknown> &
  ({ prepare(name: string): { getQuery(): Query } } | { getQuery(): Query })

/** Runs a prepared statement with the values of its placeholders. Resolves to its rows. */
export type PreparedStatement<Rows> = (connection: Connection, values?: Values) => Promise<Rows>

/**
 * Returns a function that runs a statement. PostgreSQL prepares it by its text, once on each connection.
 * @param build builds the statement, at the first call
 */
export function prepare<Q extends Buildable>(
  build: (db: Connection) => Q,
  options?: RunOptions,
): PreparedStatement<Awaited<Q>> {
  let statement: Statement | undefined
  return (connection, values) => {
    statement ??= toStatement(build(connection))
    // The builder has inferred the rows from the columns of the statement.
    return connection.run(statement.text, statement.bind(values), options) as Promise<Awaited<Q>>
  }
}

const toStatement = (query: Buildable) =>
  new Statement('prepare' in query ? query.prepare('').getQuery() : query.getQuery())

/** Shapes of statements that are kept. Clients choose them, so their number has to be limited. */
const MAX_SHAPES = 2_000

/** Prepared statements by their shapes. Beyond MAX_SHAPES, the oldest one is dropped. */
export class StatementsByShape {
  readonly #statements = new Map<string, PreparedStatement<unknown>>()

  /**
   * Returns the statement of a shape.
   * @param build builds the statement of that shape, with the columns of `R`
   */
  get<R extends object>(
    shape: string,
    build: (db: Connection) => Buildable,
    options?: RunOptions,
  ): PreparedStatement<R[]> {
    let statement = this.#statements.get(shape)
    if (!statement) {
      if (this.#statements.size >= MAX_SHAPES)
        this.#statements.delete(this.#statements.keys().next().value ?? '')
      statement = prepare(build, options)
      this.#statements.set(shape, statement)
    }
    // The tables of definitions infer no row types.
    return statement as PreparedStatement<R[]>
  }
}
