/**
 * One postgres.js client with exactly one socket in its life: sends statements, collects their rows, and knows whether
 * the server is silent and when the client must be replaced.
 */
import { Socket } from 'node:net'
import postgres from 'postgres'
import { parse as parseArray } from 'postgres-array'
import { identity } from '../../identity.ts'
import { publishRenewal } from '../channels.ts'
import { DatabaseUnavailable, isConnectionLoss, toDatabaseError } from '../errors.ts'
import type { Param, Queryable, Row, RunOptions } from '../types.ts'
import { PARSERS, PRESERIALIZED_TYPES, toTextValues } from '../values.ts'
import type { Address } from './address.ts'

export interface ClientOptions {
  address: Address
  /** Milliseconds a statement may take; 0 for no limit. */
  statementTimeout: number
  /** Milliseconds that a statement may wait for a lock; 0 for no limit. */
  lockTimeout: number
  /** Milliseconds for connecting and authentication. */
  connectTimeout: number
  /** Milliseconds after the statement timeout until a server that has not answered is considered gone. */
  grace: number
  /** Milliseconds, and up to twice as many, until the client has expired. */
  lifetime: number
  onNotice?: ((message: string) => void) | undefined
}

interface ClientRunOptions extends Pick<RunOptions, 'customPlan'> {
  /** Milliseconds that the statement may take, 0 for no limit; by default those of the client. */
  timeout?: number
  /** Whether a stale prepared statement is sent again. Not in a transaction, which that error aborts. */
  canRepeat?: boolean
}

/** A table was altered after the server prepared the statement. Nothing was executed: it can be sent again. */
class StaleStatementError extends Error {
  override readonly name = 'StaleStatementError'
}

/**
 * Greater than the number of statement texts in use. The server keeps every prepared statement of a connection, some
 * 20 kB each, and API clients choose the texts by their queries: after this many, the client has expired.
 */
const MAX_STATEMENT_TEXTS = 1000
/** SQLSTATE read_only_sql_transaction: a write on a standby. */
const READ_ONLY = '25006'
const END_TIMEOUT_MS = 1000

/** `simple: false` also without parameters: the simple query protocol would run several statements of one text. */
const PREPARED = { prepare: true, simple: false }
const UNPREPARED = { prepare: false, simple: false }

const SETTINGS = {
  application_name: identity.name,
  client_encoding: 'UTF8',
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  // What PostgreSQL prints and parses, and what a statement outside of a transaction sees, must not depend on settings of
  // the database or the role.
  ...{ standard_conforming_strings: 'on', array_nulls: 'on', bytea_output: 'hex', extra_float_digits: 1 },
  default_transaction_isolation: 'read committed',
  // Milliseconds for which a transaction may be idle. As long as a request may take.
  idle_in_transaction_session_timeout: 10_000,
  // One statement uses one core: with parallel workers, two searches with totals start up to twelve processes.
  max_parallel_workers_per_gather: 0,
  // In seconds. The server notices within a minute that this machine, or the network to it, is gone.
  ...{ tcp_keepalives_idle: 30, tcp_keepalives_interval: 10, tcp_keepalives_count: 3 },
}

/** The element type of each array type, by their numbers in `pg_type`. */
const ARRAY_TYPES: Readonly<Record<number, number>> = {
  ...{ 1000: 16, 1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701, 1231: 1700 },
  ...{ 1009: 25, 1015: 1043, 2951: 2950, 199: 114, 3807: 3802, 1115: 1114, 1182: 1082, 1185: 1184 },
}
/** Types that postgres.js parses as numbers. */
const NUMBER_TYPES = new Set([21, 23, 700, 701])

const getParser = (oid: number): ((text: string) => unknown) => {
  const element = ARRAY_TYPES[oid]
  if (element === undefined) return PARSERS[oid] ?? (NUMBER_TYPES.has(oid) ? Number : String)
  const parse = getParser(element)
  return (text) => parseArray(text, parse)
}

const TYPES = Object.fromEntries(
  [...PRESERIALIZED_TYPES, ...Object.keys(ARRAY_TYPES).map(Number)].map((oid) => {
    const from = oid in PARSERS || oid in ARRAY_TYPES ? [oid] : []
    return [String(oid), { to: oid, from, serialize: String, parse: getParser(oid) }]
  }),
)

export class Client implements Queryable {
  /** Time of `performance.now()` of the last answer; undefined before the first. */
  lastAnswer: number | undefined
  /** Whether the connection has ended, or an error has shown that it will. */
  isLost = false
  readonly #sql: postgres.Sql
  readonly #statementTimeout: number
  readonly #grace: number
  #socket: Socket | undefined
  /** The texts that were prepared. */
  readonly #texts = new Set<string>()
  /** Statements without an answer. */
  #unanswered = 0
  /** Time of `performance.now()` after which a server that has not answered is considered gone. */
  #deadline = Number.POSITIVE_INFINITY
  /** Time of `performance.now()`. Random: clients that were opened together are not replaced together. */
  #expiresAt: number

  constructor(options: ClientOptions) {
    const { address, statementTimeout, lockTimeout, connectTimeout, grace, lifetime, onNotice } = options
    const { target, database, user, password, ssl, searchPath, applicationName, serverOptions } = address
    this.#statementTimeout = statementTimeout
    this.#grace = grace
    this.#expiresAt = performance.now() + lifetime * (1 + Math.random())
    const settings = {
      // The server applies `options` first: the settings of this client win.
      ...(serverOptions !== undefined && { options: serverOptions }),
      ...SETTINGS,
      ...(applicationName !== undefined && { application_name: applicationName }),
      statement_timeout: statementTimeout,
      lock_timeout: lockTimeout,
      ...(searchPath !== undefined && { search_path: searchPath }),
    }
    // The types of postgres.js lack these options, and have numbers, of which it does not send 0.
    const untypedOptions = {
      // Not the one of the environment variable PGSSLNEGOTIATION.
      sslnegotiation: null,
      connection: Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, `${value}`])),
      socket: () => {
        if (this.#socket) return createLostSocket()
        this.#socket = openSocket(address)
        return this.#socket
      },
    }
    this.#sql = postgres({
      ...untypedOptions,
      ...('host' in target ? target : {}),
      ...(password !== undefined && { password }),
      ...{ database, user, ssl, max: 1, backoff: false, types: TYPES, max_lifetime: null },
      connect_timeout: connectTimeout / 1000,
      // The failure of its query for array types is not handled: a connection lost during it would end the process.
      fetch_types: false,
      onnotice: (notice) => onNotice?.(notice.message ?? ''),
      onclose: () => {
        this.isLost = true
        void this.#sql.end({ timeout: 0 })
      },
    })
    disableStatementRetry(this.#sql)
  }

  hasExpired(): boolean {
    return performance.now() > this.#expiresAt || this.#texts.size > MAX_STATEMENT_TEXTS
  }

  /** Returns whether the server has not answered in time. */
  isOverdue(): boolean {
    return performance.now() > this.#deadline
  }

  /**
   * Collects the rows itself: postgres.js 3.4.9 counts the rows of a result in one variable per connection (`rows`,
   * src/connection.js line 95), increments it for each row (523) and resets it only when a statement completes (591).
   * After a statement that fails behind its first row, the next result begins with as many holes, and statements of
   * the same packet are answered before the connection could be closed. `forEach` does not use the counter. Reported
   * as https://github.com/porsager/postgres/issues/1119 and /issues/1181; not fixed in November 2026.
   */
  async run(text: string, params: readonly Param[] = [], options: ClientRunOptions = {}): Promise<Row[]> {
    const { customPlan = false, canRepeat = true, timeout = this.#statementTimeout } = options
    const values = toTextValues(params)
    if (!customPlan) this.#texts.add(text)
    this.#unanswered += 1
    // Statements in a pipeline have this time together.
    this.#deadline = timeout ? performance.now() + timeout + this.#grace : Number.POSITIVE_INFINITY
    const collected: Row[] = []
    try {
      await this.#sql.unsafe<Row[]>(text, values, customPlan ? UNPREPARED : PREPARED).forEach((row) => {
        collected.push(row)
      })
      this.lastAnswer = performance.now()
      // Moved into a new array: the old one may be in the old generation by now, and would keep the rows until a full
      // garbage collection. A page of 20 rows costs a quarter more CPU then (bench W2 to W4).
      const rows: Row[] = []
      for (const row of collected) rows.push(row)
      collected.length = 0
      return rows
    } catch (error) {
      if (!(error instanceof StaleStatementError)) throw this.#handleError(error, collected.length > 0)
      if (!canRepeat) throw this.#handleError(error.cause, false)
      return this.run(text, params, { ...options, canRepeat: false })
    } finally {
      this.#unanswered -= 1
      if (this.#unanswered === 0) this.#deadline = Number.POSITIVE_INFINITY
    }
  }

  /** Ends the connection after its running statements, and closes the socket if that takes more than a second. */
  async end(): Promise<void> {
    setTimeout(() => this.#socket?.destroy(), END_TIMEOUT_MS).unref()
    await this.#sql.end({ timeout: END_TIMEOUT_MS / 1000 })
  }

  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void {
    this.isLost = true
    this.#socket?.destroy()
  }

  /** Returns the error for the caller, and decides whether the client can be used further. */
  #handleError(error: unknown, hasRows: boolean): unknown {
    const databaseError = toDatabaseError(error)
    // A socket reports its error before its end. In between, the client still looks usable.
    if (isConnectionLoss(databaseError)) this.isLost = true
    else this.lastAnswer = performance.now()
    // A primary that has become a standby is left before the next use.
    const isReadOnly = databaseError instanceof DatabaseUnavailable && databaseError.code === READ_ONLY
    if (isReadOnly) publishRenewal('read-only')
    // After an error behind the first row, the driver's row counter is wrong. API clients cannot cause this cheaply:
    // PostgreSQL sends the rows of INSERT, UPDATE and DELETE ... RETURNING only after the constraints were checked.
    if (isReadOnly || hasRows) this.#expiresAt = 0
    return databaseError
  }
}

/**
 * Turns off the retry of stale prepared statements in postgres.js: their query fails with StaleStatementError.
 *
 * postgres.js 3.4.9 (src/connection.js, `retry`) sends such a statement again behind all statements already sent, as
 * Parse, Describe and Flush, and Bind when these are answered. Of two in one packet it takes the second description
 * for the first statement's: the first resolves with the column names of the second, and the second is never answered.
 * Not reported upstream as of November 2026. `retry` forgets the prepared statement, sets `retried` and sends the query
 * unless it is cancelled, so a setter can stop it.
 */
function disableStatementRetry(sql: postgres.Sql): void {
  // This query is not sent: postgres.js sends a query when it is awaited.
  const query: object = Object.getPrototypeOf(sql.unsafe(''))
  if ('retried' in query) return
  Object.defineProperty(query, 'retried', {
    get: () => undefined,
    set(this: { cancelled: boolean; reject(error: Error): void }, cause: unknown) {
      this.cancelled = true
      this.reject(new StaleStatementError('A prepared statement is stale', { cause }))
    },
  })
}

/** Opens a socket. If the server closes it, that is an error: postgres.js ignores such an end during authentication. */
function openSocket({ target }: Address): Socket {
  const socket = new Socket()
  // postgres.js checks the certificate for this name.
  if ('host' in target) Object.assign(socket, { host: target.host })
  socket.once('end', () => socket.destroy(new DatabaseUnavailable('The server closed the connection')))
  // Deferred, because postgres.js listens for errors only after it has the socket. A socket that was destroyed in the
  // meantime must not connect: nothing would handle its errors, which ends the process.
  setImmediate(() => socket.destroyed || socket.connect({ ...target, noDelay: true }))
  return socket
}

/** Returns a socket that fails, for a client that opens a second one. */
function createLostSocket(): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(new DatabaseUnavailable('The connection was lost')))
  return socket
}
