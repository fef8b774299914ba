/** A postgres.js client with exactly one socket in its life, and the settings that every connection of the house has. */
import { Socket } from 'node:net'
import postgres from 'postgres'
import { parse as parseArray } from 'postgres-array'
import { DatabaseUnavailable } from '../errors.ts'
import { PARSERS, PLAIN } from '../values.ts'
import type { Address } from './address.ts'

export interface ClientOptions {
  address: Address
  /** Milliseconds a statement may take; 0: for ever. */
  statementTimeout: number
  /** Milliseconds for connecting and signing in. */
  connectTimeout: number
  onNotice?: ((message: string) => void) | undefined
  /** Called when the connection has ended, by whomever. */
  onEnd: () => void
}

export interface Client {
  sql: postgres.Sql
  /** Takes leave when what runs is done; of a server that has not heard it within a second, without a word. */
  end(): Promise<void>
  /** Ends the connection without a word: what waits for an answer fails. */
  destroy(): void
}

/** A table has changed since the server prepared the statement. None of it was carried out: it can be sent again. */
export class StaleStatementError extends Error {
  override readonly name = 'StaleStatementError'
}

/** Milliseconds. */
const FAREWELL = 1000
/** Milliseconds the server lets a transaction idle; a request may not take longer either. */
const IDLE_IN_TRANSACTION = 10_000

/** Seconds: a minute after this machine is gone, or the way to it, the server has its connections back. */
const KEEPALIVE = { tcp_keepalives_idle: 30, tcp_keepalives_interval: 10, tcp_keepalives_count: 3 }

/** Arrays by the number of their type, with that of their elements. */
const ARRAYS: Readonly<Record<number, number>> = {
  ...{ 1000: 16, 1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701, 1231: 1700 },
  ...{ 1009: 25, 1015: 1043, 2951: 2950, 199: 114, 3807: 3802, 1115: 1114, 1182: 1082, 1185: 1184 },
}
/** What postgres.js makes numbers of by itself. */
const NUMBERS = new Set([21, 23, 700, 701])

const parserOf = (oid: number): ((text: string) => unknown) => {
  const element = ARRAYS[oid]
  if (element !== undefined) {
    const parse = parserOf(element)
    return (text) => parseArray(text, parse)
  }
  return PARSERS[oid] ?? (NUMBERS.has(oid) ? Number : String)
}

const TYPES = Object.fromEntries(
  [...PLAIN, ...Object.keys(ARRAYS).map(Number)].map((oid) => {
    const from = oid in PARSERS || oid in ARRAYS ? [oid] : []
    return [String(oid), { to: oid, from, serialize: String, parse: parserOf(oid) }]
  }),
)

export function createClient(options: ClientOptions): Client {
  const { address, statementTimeout, connectTimeout, onNotice, onEnd } = options
  let first: Socket | undefined
  // postgres.js knows this option, its types do not.
  const own = {
    socket: (): Socket => {
      if (first) return lostSocket()
      first = openSocket(address)
      return first
    },
  }
  const sql = postgres({
    ...own,
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
    // Its question for array types has nobody who hears of its failure: a connection lost meanwhile ends the process.
    fetch_types: false,
    connection: {
      application_name: 'resource-api',
      client_encoding: 'UTF8',
      TimeZone: 'UTC',
      DateStyle: 'ISO, MDY',
      IntervalStyle: 'postgres',
      statement_timeout: statementTimeout,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION,
      // One statement takes one core: with parallel workers, two searches with totals start up to twelve processes.
      max_parallel_workers_per_gather: 0,
      ...KEEPALIVE,
    },
    onnotice: (notice) => onNotice?.(notice.message ?? ''),
    onclose: () => {
      onEnd()
      void sql.end({ timeout: 0 })
    },
  })
  disableRetry(sql)
  const destroy = () => void first?.destroy()
  const end = async () => {
    setTimeout(destroy, FAREWELL).unref()
    await sql.end({ timeout: FAREWELL / 1000 })
  }
  return { sql, end, destroy }
}

/**
 * Turns off postgres.js' own repetition of statements that are stale: their query fails with StaleStatementError.
 *
 * postgres.js 3.4.9 (src/connection.js, `retry`) sends such a statement again behind all that were sent already, as
 * Parse, Describe and Flush, and Bind when these are answered. Of two in one packet it takes the second description
 * for the first statement's: the first resolves with the column names of the second, and the second is never answered.
 * Not reported upstream as of November 2026. `retry` forgets the prepared statement, sets `retried` and sends the query
 * unless it is cancelled, so that a setter is where it can be stopped.
 */
function disableRetry(sql: postgres.Sql): void {
  // Not sent, as nothing waits for it.
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

/** A socket on its way. An end the server makes is an error: postgres.js takes one while it signs in for nothing. */
function openSocket({ target }: Address): Socket {
  const socket = new Socket()
  if ('host' in target) Object.assign(socket, { host: target.host }) // the name postgres.js checks a certificate for
  socket.once('end', () => socket.destroy(new DatabaseUnavailable('The server closed the connection')))
  // Later, because postgres.js listens for errors only after it has got the socket. One that was given up meanwhile
  // would begin anew, with nobody who hears of its errors: that ends the process.
  setImmediate(() => socket.destroyed || socket.connect({ ...target, noDelay: true }))
  return socket
}

/** What a client gets that asks for a second socket. */
function lostSocket(): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(new DatabaseUnavailable('The connection was lost')))
  return socket
}
