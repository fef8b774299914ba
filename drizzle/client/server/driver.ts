/** Creates postgres.js clients with exactly one socket in their life, and the settings of every connection. */
import { Socket } from 'node:net'
import postgres from 'postgres'
import { parse as parseArray } from 'postgres-array'
import { identity } from '../../../lib/identity.ts'
import { DatabaseUnavailable } from '../errors.ts'
import { PARSERS, PRESERIALIZED_TYPES } from '../values.ts'
import type { Address } from './address.ts'

export interface DriverOptions {
  address: Address
  /** Milliseconds a statement may take; 0 for no limit. */
  statementTimeout: number
  /** Milliseconds for connecting and authentication. */
  connectTimeout: number
  onNotice?: ((message: string) => void) | undefined
  /** Called when the connection has ended, on either side. */
  onEnd: () => void
}

export interface Driver {
  sql: postgres.Sql
  /** Ends the connection after its running statements, and destroys it if that takes more than a second. */
  end(): Promise<void>
  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void
}

/**
 * A table was altered after the server prepared the statement. Nothing was executed: the statement can be sent again.
 */
export class StaleStatementError extends Error {
  override readonly name = 'StaleStatementError'
}

const END_TIMEOUT_MS = 1000
/** The server closes a connection whose transaction is idle for longer. As long as a request may take. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000

/** In seconds. The server notices within a minute that this machine, or the network to it, is gone. */
const KEEPALIVE = { tcp_keepalives_idle: 30, tcp_keepalives_interval: 10, tcp_keepalives_count: 3 }

/** The element type of each array type, by their numbers in `pg_type`. */
const ARRAY_TYPES: Readonly<Record<number, number>> = {
  ...{ 1000: 16, 1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701, 1231: 1700 },
  ...{ 1009: 25, 1015: 1043, 2951: 2950, 199: 114, 3807: 3802, 1115: 1114, 1182: 1082, 1185: 1184 },
}
/** Types that postgres.js parses as numbers. */
const NUMBER_TYPES = new Set([21, 23, 700, 701])

const getParser = (oid: number): ((text: string) => unknown) => {
  const element = ARRAY_TYPES[oid]
  if (element !== undefined) {
    const parse = getParser(element)
    return (text) => parseArray(text, parse)
  }
  return PARSERS[oid] ?? (NUMBER_TYPES.has(oid) ? Number : String)
}

const TYPES = Object.fromEntries(
  [...PRESERIALIZED_TYPES, ...Object.keys(ARRAY_TYPES).map(Number)].map((oid) => {
    const from = oid in PARSERS || oid in ARRAY_TYPES ? [oid] : []
    return [String(oid), { to: oid, from, serialize: String, parse: getParser(oid) }]
  }),
)

export function createDriver(options: DriverOptions): Driver {
  const { address, statementTimeout, connectTimeout, onNotice, onEnd } = options
  const { searchPath } = address
  let socket: Socket | undefined
  // postgres.js has this option, but its types lack it.
  const untypedOptions = {
    socket: (): Socket => {
      if (socket) return createLostSocket()
      socket = openSocket(address)
      return socket
    },
  }
  const sql = postgres({
    ...untypedOptions,
    ...('host' in address.target ? address.target : {}),
    database: address.database,
    user: address.user,
    ...(address.password !== undefined && { password: address.password }),
    ssl: address.ssl,
    max: 1,
    connect_timeout: connectTimeout / 1000,
    max_lifetime: null,
    backoff: false,
    types: TYPES,
    // The failure of its query for array types is not handled: a connection lost during it would end the process.
    fetch_types: false,
    connection: {
      application_name: identity.name,
      client_encoding: 'UTF8',
      TimeZone: 'UTC',
      DateStyle: 'ISO, MDY',
      IntervalStyle: 'postgres',
      statement_timeout: statementTimeout,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
      // One statement uses one core: with parallel workers, two searches with totals start up to twelve processes.
      max_parallel_workers_per_gather: 0,
      ...(searchPath !== undefined && { search_path: searchPath }),
      ...KEEPALIVE,
    },
    onnotice: (notice) => onNotice?.(notice.message ?? ''),
    onclose: () => {
      onEnd()
      void sql.end({ timeout: 0 })
    },
  })
  disableStatementRetry(sql)
  const destroy = () => void socket?.destroy()
  const end = async () => {
    setTimeout(destroy, END_TIMEOUT_MS).unref()
    await sql.end({ timeout: END_TIMEOUT_MS / 1000 })
  }
  return { sql, end, destroy }
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
