/**
 * One connection to a server: a postgres.js client of its own, with exactly one socket in its life.
 *
 * Why not postgres.js' own pool (3.4.9): when a connection dies inside `sql.begin`, it writes the ROLLBACK to a
 * socket that is gone, which ends the process; a connection that died with a write pending never sends another
 * byte; one that is closed while it signs in is tried again without pause or end, its query waiting; and a
 * query that waits may run on another connection than the transaction it belongs to. A client with one
 * connection, thrown away with its socket, knows none of these: what is lost fails at once, and stays lost.
 */
import { Socket } from 'node:net'
import postgres from 'postgres'
import type { Address } from './address.ts'
import { DatabaseUnavailable, translate } from './errors.ts'
import { within } from './transaction.ts'
import type { Connection, Limits, Param, Row } from './types.ts'
import { PARSERS, PLAIN, texts } from './values.ts'

export interface SessionOptions {
  address: Address
  /** Milliseconds a statement may take; 0: for ever. */
  statementTimeout: number
  onNotice?: ((message: string) => void) | undefined
  /** Milliseconds, and up to twice as many, until a connection is replaced by a new one. */
  lifetime?: number | undefined
}

const LIFETIME = 30 * 60_000

/** Milliseconds for connecting and signing in. */
const CONNECT = 2000
/** Milliseconds beyond the statement timeout, after which a silent server is taken for gone. */
const GRACE = 2000
/** Milliseconds the server lets a transaction idle; a request may not take longer either. */
const IDLE_IN_TRANSACTION = 10_000

/**
 * More texts than the house has shapes. A server keeps every prepared statement of a connection, some 20 kB each,
 * and clients choose the shapes: beyond this many, the connection is exchanged for a new one.
 */
const MANY = 1000

/** `simple: false` also without values: the simple protocol would run several statements at once. */
const PREPARED = { prepare: true, simple: false }

const TYPES = Object.fromEntries(
  PLAIN.map((oid) => {
    const parse = PARSERS[oid]
    return [String(oid), { to: oid, from: parse ? [oid] : [], serialize: String, parse: parse ?? String }]
  }),
)

export class Session {
  readonly #options: SessionOptions
  #client: postgres.Sql | undefined
  #socket: Socket | undefined
  #pending = 0
  readonly #texts = new Set<string>()
  /** When, on the clock of `performance.now()`, the server's silence can only mean that it is gone. */
  #deadline = Number.POSITIVE_INFINITY
  #expires = 0
  #closed = false

  constructor(options: SessionOptions) {
    this.#options = options
  }

  async run(text: string, params: readonly Param[] = []): Promise<Row[]> {
    return this.#send(this.#ready(), text, params, this.#options.statementTimeout)
  }

  async transaction<T>(work: (tx: Connection) => Promise<T>, limits: Limits = {}): Promise<T> {
    // Bound to this client: should it die, what follows fails instead of running outside the transaction.
    const client = this.#ready()
    const timeout = limits.statementTimeout ?? this.#options.statementTimeout
    const send = (text: string, params: readonly Param[] = []) => this.#send(client, text, params, timeout)
    const begin = async () => {
      await send('begin isolation level read committed')
      if (timeout !== this.#options.statementTimeout) await send(`set local statement_timeout = ${timeout}`)
    }
    let begun: Promise<void> | undefined
    try {
      const result = await within(async (text, params) => {
        begun ??= begin()
        await begun
        return send(text, params)
      }, work)
      if (begun) await send('commit')
      return result
    } catch (error) {
      // Rejected by the server, a COMMIT has ended the transaction too, and ROLLBACK is but a warning. Where
      // even ROLLBACK fails, the connection may still be inside: nobody may get it.
      if (begun) await send('rollback').catch(() => this.#drop())
      throw error
    }
  }

  /** To be called every second or so: ends a connection whose server is silent beyond all limits. */
  check(): void {
    if (performance.now() > this.#deadline) this.#drop()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#client?.end({ timeout: 1 })
  }

  async #send(client: postgres.Sql, text: string, params: readonly Param[], timeout: number): Promise<Row[]> {
    this.#pending += 1
    this.#texts.add(text)
    this.#deadline = timeout ? performance.now() + timeout + GRACE : Number.POSITIVE_INFINITY
    try {
      const rows = await client.unsafe<Row[]>(text, texts(params), PREPARED)
      return rows.slice()
    } catch (error) {
      const known = translate(error)
      // A socket reports its error before its end; in between the client still looks alive.
      if (known instanceof DatabaseUnavailable && known.code === undefined) this.#forget(client)
      throw known
    } finally {
      this.#pending -= 1
      if (this.#pending === 0) this.#deadline = Number.POSITIVE_INFINITY
    }
  }

  /** A connection for who starts anew; an old one goes, and with it what the server remembers for it. */
  #ready(): postgres.Sql {
    if (this.#closed) throw new DatabaseUnavailable('The database is closed')
    if (this.#client && (performance.now() > this.#expires || this.#texts.size > MANY)) {
      void this.#client.end()
      this.#client = undefined
    }
    return this.#client ?? this.#connect()
  }

  #drop(): void {
    this.#client = undefined
    this.#socket?.destroy()
  }

  #forget(client: postgres.Sql): void {
    if (this.#client === client) this.#client = undefined
  }

  #connect(): postgres.Sql {
    const { address, statementTimeout, onNotice } = this.#options
    let used = false
    // postgres.js knows this option, its types do not.
    const own = {
      socket: (): Socket => {
        const socket = used ? lostSocket() : openSocket(address)
        if (!used) this.#socket = socket
        used = true
        return socket
      },
    }
    const client = postgres({
      ...own,
      ...('host' in address.target ? address.target : {}),
      database: address.database,
      user: address.user,
      ...(address.password !== undefined && { password: address.password }),
      ssl: address.ssl,
      max: 1,
      connect_timeout: CONNECT / 1000,
      max_lifetime: null,
      backoff: false,
      types: TYPES,
      connection: {
        application_name: 'resource-api',
        client_encoding: 'UTF8',
        TimeZone: 'UTC',
        DateStyle: 'ISO, MDY',
        IntervalStyle: 'postgres',
        statement_timeout: statementTimeout,
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION,
      },
      onnotice: (notice) => onNotice?.(notice.message ?? ''),
      onclose: () => {
        this.#forget(client)
        void client.end({ timeout: 0 })
      },
    })
    this.#client = client
    // Not all at the same time: those that were opened together do not close together.
    this.#texts.clear()
    this.#expires = performance.now() + (this.#options.lifetime ?? LIFETIME) * (1 + Math.random())
    return client
  }
}

/** A socket on its way. An end the server makes is an error: postgres.js takes one while it signs in for nothing. */
function openSocket({ target }: Address): Socket {
  const socket = new Socket()
  if ('host' in target) Object.assign(socket, { host: target.host }) // the name postgres.js checks a certificate for
  socket.once('end', () => socket.destroy(new DatabaseUnavailable('The server closed the connection')))
  // Later, because postgres.js listens for errors only after it has got the socket.
  setImmediate(() => socket.connect({ ...target, noDelay: true }))
  return socket
}

/** What a client gets that asks for a second socket. */
function lostSocket(): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(new DatabaseUnavailable('The connection was lost')))
  return socket
}
