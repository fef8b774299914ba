/**
 * The Drizzle database over the clients of this folder, with a session and a prepared query of its own, as each of
 * Drizzle's drivers has. `prepare.ts` says how to write statements.
 */
import { is, type Query, SQL } from 'drizzle-orm'
import {
  PgColumn,
  PgDatabase,
  PgDialect,
  PgPreparedQuery,
  PgSession,
  type PreparedQueryConfig,
  type SelectedFieldsOrdered,
} from 'drizzle-orm/pg-core'
import { Statement } from './prepare.ts'
import type {
  Connection,
  Database,
  DatabaseClient,
  Queryable,
  RowsResult,
  Transaction,
  TransactionClient,
} from './types.ts'

const dialect = new PgDialect()

/** The name that PostgreSQL gives a selected field; undefined for an expression without one. */
const getName = (field: SelectedFieldsOrdered[number]['field']) =>
  is(field, PgColumn) ? field.name : is(field, SQL.Aliased) ? field.fieldAlias : undefined

/**
 * Returns a query whose rows have the names under which its fields are selected: the clients return objects by the names
 * that PostgreSQL gives, since Drizzle's own mapping by position takes 13.5 us for 20 rows. A field with another name is
 * renamed by its position, in a query around it, which those that run often do not need.
 * @throws Error for a nested selection
 */
function nameFields(query: Query, fields: SelectedFieldsOrdered): Query {
  const nested = fields.find(({ path }) => path.length > 1)
  if (nested) {
    const { path } = nested
    throw new Error(`The selected field ${path.join('.')} is nested; select it as ${path.join('_')}`)
  }
  if (fields.every(({ path: [name], field }) => getName(field) === name)) return query
  const names = fields.map(({ path: [name = ''] }) => dialect.escapeName(name)).join(', ')
  const text = /^(?:insert|update|delete)\b/i.test(query.sql)
    ? `with renamed (${names}) as (${query.sql}) select * from renamed`
    : `select * from (${query.sql}) as renamed (${names})`
  return { ...query, sql: text }
}

class PreparedQuery<T extends PreparedQueryConfig> extends PgPreparedQuery<T> {
  readonly #client: Queryable

  constructor(client: Queryable, query: Query) {
    super(query, undefined, undefined)
    this.#client = client
  }

  override execute(values?: Record<string, unknown>): Promise<T['execute']> {
    const statement = new Statement(this.query)
    return this.#client.run(statement.text, statement.bind(values))
  }
}

class Session extends PgSession<RowsResult> {
  readonly #client: Queryable

  constructor(client: Queryable) {
    super(dialect)
    this.#client = client
  }

  override prepareQuery<T extends PreparedQueryConfig>(
    query: Query,
    fields?: SelectedFieldsOrdered,
  ): PgPreparedQuery<T> {
    return new PreparedQuery(this.#client, fields ? nameFields(query, fields) : query)
  }

  override transaction(): never {
    throw new Error('Transactions are those of the database, and there are none inside of another')
  }
}

/** Returns Drizzle's builders over a client: the one of a transaction, for example. */
export const createConnection = (client: Queryable): Connection =>
  Object.assign(new PgDatabase<RowsResult>(dialect, new Session(client), undefined), {
    run: client.run.bind(client),
  })

const createTransaction = (client: TransactionClient): Transaction =>
  Object.assign(createConnection(client), {
    savepoint: client.savepoint.bind(client),
    beforeCommit: client.beforeCommit.bind(client),
    runHooks: client.runHooks.bind(client),
    limitLocks: client.limitLocks.bind(client),
  })

/** Returns whether a connection is that of a transaction. */
export const isTransaction = (connection: Connection): connection is Transaction => 'savepoint' in connection

/** Returns the Drizzle database over a client. */
export const createDatabase = ($client: DatabaseClient): Database =>
  Object.assign(createConnection($client), $client, {
    $client,
    transaction: <T>(
      work: (tx: Transaction) => Promise<T>,
      options?: Parameters<DatabaseClient['transaction']>[1],
    ) => $client.transaction((tx) => work(createTransaction(tx)), options),
  })
