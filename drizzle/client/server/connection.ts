/**
 * One connection to a server: a postgres.js client of its own, with exactly one socket in its life.
 *
 * Why not postgres.js' own pool (3.4.9): when a connection dies inside `sql.begin`, it writes the ROLLBACK to a
 * socket that is gone, which ends the process; a connection that died with a write pending never sends another
 * byte; one that is closed while it signs in is tried again without pause or end, its query waiting; and a
 * query that waits may run on another connection than the transaction it belongs to. A client with one
 * connection, thrown away with its socket, knows none of these: what is lost fails at once, and stays lost.
 *
 * Why the rows are collected here: postgres.js 3.4.9 counts the rows of a result in one variable per connection
 * (`rows`, src/connection.js line 95), increments it for each row (line 523) and resets it only when a statement
 * completes (line 591). After a statement that fails behind its first row (a timeout, a cancellation), the next
 * result on the connection begins with as many holes. Statements that were sent in the same packet are answered
 * before the connection could be closed. With `forEach` the driver hands over each row and does not use the counter.
 * Reported as https://github.com/porsager/postgres/issues/1119 and /issues/1181; their fixes, /pull/1120 and
 * /pull/1190, were not merged in November 2026.
 */
import { channel } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import { DatabaseUnavailable, translate } from '../errors.ts'
import { within } from '../transaction.ts'
import type { Connection, Limits, Param, Row, RunOptions } from '../types.ts'
import { texts } from '../values.ts'
import type { Address } from './address.ts'
import { type Client, createClient, StaleStatementError } from './driver.ts'
import { afterSockets } from './ping.ts'
import { type Asked, isLoss, type Sent, together } from './pipeline.ts'

export interface SessionOptions {
  address: Address
  /** Milliseconds a statement may take; 0: for ever. */
  statementTimeout: number
  /** Milliseconds beyond it, after which a silent server is taken for gone. */
  grace?: number
  /** Milliseconds for connecting and signing in. */
  connectTimeout?: number
  /** Milliseconds since the last answer, after which a connection is asked whether it still holds before it is used. */
  trust?: number
  onNotice?: ((message: string) => void) | undefined
  /** Milliseconds, and up to twice as many, until a connection is replaced by a new one. */
  lifetime?: number | undefined
  /** Whether a read is sent once more where its connection was idle and turns out to be lost. Default: it is. */
  again?: boolean
  /** Asked first on every new connection; it is of no use to who throws. */
  greet?: ((run: Connection['run']) => Promise<void>) | undefined
}

type Limited = Required<Pick<SessionOptions, 'grace' | 'connectTimeout' | 'trust'>> & { lifetime: number }

const LIFETIME = 30 * 60_000
const CONNECT = 2000
const GRACE = 1000
const TRUST = 1000
/** Milliseconds since the last answer in which nothing else is taken to have come. */
const FRESH = 5
/** Milliseconds in which a connection that is asked must answer; and in which, once lost, it may have been stale. */
const PATIENCE = 1000
/** SQLSTATE of a write where none is possible. */
const READ_ONLY = '25006'
/**
 * For what has no limit: should this process end, the server is to notice before the statement does. It cannot
 * everywhere, and would refuse to be asked.
 */
const WATCHFUL = `select set_config('client_connection_check_interval', '1000', true) where version() ~ 'linux'`

/**
 * More texts than the house has shapes. A server keeps every prepared statement of a connection, some 20 kB each,
 * and clients choose the shapes: beyond this many, the connection is exchanged for a new one.
 */
const MANY = 1000

interface DispatchOptions extends Pick<RunOptions, 'custom'> {
  /** Whether it is sent again where its prepared statement is stale. Not in a transaction, which that error aborts. */
  canRepeat?: boolean
}

/** `simple: false` also without values: the simple protocol would run several statements at once. */
const PREPARED = { prepare: true, simple: false }
const UNPREPARED = { prepare: false, simple: false }

/** What may be sent twice: where the connection is lost nobody knows whether a statement was carried out. */
export const isRead = (text: string): boolean => /^\s*select\b/i.test(text)

/** What is published on `resource-api:database:renewed`: why a connection was given up for a new one. */
export interface Renewal {
  /** It did not hold when it was to be used, was lost, its server was silent, or is no primary any more. */
  why: 'stale' | 'lost' | 'silent' | 'read-only'
}

const renewals = channel('resource-api:database:renewed')
const publish = (why: Renewal['why']) => renewals.hasSubscribers && renewals.publish({ why })

/**
 * Moves the rows into a new array. The one that collected them may be in the old generation by now, and would keep them
 * until a full garbage collection: a page of 20 rows costs a quarter more CPU then (bench W2 to W4).
 */
function moveRows(collected: Row[]): Row[] {
  const rows: Row[] = []
  for (const row of collected) rows.push(row)
  collected.length = 0
  return rows
}

export class Session {
  readonly #options: SessionOptions & Limited
  #client: Client | undefined
  #pending = 0
  readonly #texts = new Set<string>()
  /** When, on the clock of `performance.now()`, the server's silence can only mean that it is gone. */
  #deadline = Number.POSITIVE_INFINITY
  /** When the server last answered on this connection; undefined before it did. */
  #heard: number | undefined
  #expires = 0
  #closed = false

  constructor(options: SessionOptions) {
    const { grace = GRACE, connectTimeout = CONNECT, trust = TRUST, lifetime = LIFETIME } = options
    this.#options = { ...options, grace, connectTimeout, trust, lifetime }
  }

  async run(
    text: string,
    params: readonly Param[] = [],
    { custom = false }: RunOptions = {},
  ): Promise<Row[]> {
    const send = (client: Client) =>
      this.#send(client, text, params, this.#options.statementTimeout, { custom, canRepeat: true })
    return isRead(text) ? this.#twice(send) : send(await this.#readyForOnce())
  }

  /**
   * Reads several things at once, sent in one packet and answered one after the other. Each is told what came of it;
   * only what the connection was lost for is not.
   * @throws DatabaseUnavailable then
   */
  async readAll(asked: readonly Asked[]): Promise<void> {
    let left = asked
    await this.#twice(async (client) => {
      const { lost, why } = await this.#sendAll(client, left)
      left = lost
      if (why) throw why
    })
  }

  /**
   * Writes several things at once, each a transaction of its own, sent in one packet and done one after the other. Each
   * is told what came of it; only what the connection was lost for is not.
   * @returns milliseconds from the first answer to the last
   * @throws DatabaseUnavailable then
   */
  async writeAll(asked: readonly Asked[]): Promise<number> {
    const { why, took } = await this.#sendAll(await this.#readyForOnce(), asked)
    if (why) throw why
    return took
  }

  async transaction<T>(work: (tx: Connection) => Promise<T>, limits: Limits = {}): Promise<T> {
    const timeout = limits.statementTimeout ?? this.#options.statementTimeout
    let begun: Promise<Client> | undefined
    // Bound to one client: should it die, what follows fails instead of running outside the transaction.
    const send = async (text: string, params: readonly Param[] = []) => {
      begun ??= this.#begin(timeout)
      return this.#send(await begun, text, params, timeout)
    }
    try {
      const result = await within(send, work)
      if (begun) await send('commit')
      return result
    } catch (error) {
      // Rejected by the server, a COMMIT has ended the transaction too, and ROLLBACK is but a warning. Where
      // even ROLLBACK fails, the connection may still be inside: nobody may get it.
      if (begun) await send('rollback').catch(() => this.#drop())
      throw error
    }
  }

  /** To be called several times a second: ends a connection whose server is silent beyond all limits. */
  check(): void {
    if (performance.now() > this.#deadline) afterSockets(() => this.#giveUp())
  }

  #giveUp(): void {
    if (performance.now() <= this.#deadline) return
    publish('silent')
    this.#drop()
  }

  /** Ends the connection without a word: what waits for an answer on it fails now. */
  abandon(): void {
    this.#drop()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#client?.end()
  }

  /** A transaction that has only begun has done nothing yet. */
  async #begin(timeout: number): Promise<Client> {
    const { statementTimeout } = this.#options
    return this.#twice(async (client) => {
      await this.#send(client, 'begin isolation level read committed', [], statementTimeout)
      if (timeout !== statementTimeout)
        await this.#send(client, `set local statement_timeout = ${timeout}`, [], statementTimeout)
      if (timeout === 0) await this.#send(client, WATCHFUL, [], statementTimeout)
      return client
    })
  }

  #send(
    client: Client,
    text: string,
    params: readonly Param[],
    timeout: number,
    options: DispatchOptions = {},
  ): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      this.#dispatch(client, { text, values: texts(params), resolve, reject }, timeout, options)
    })
  }

  #sendAll(client: Client, asked: readonly Asked[]): Promise<Sent> {
    const { statementTimeout } = this.#options
    return together(asked, (each) => this.#dispatch(client, each, statementTimeout, { canRepeat: true }))
  }

  /**
   * Not with callbacks on the driver's promise: measured, the rows of all later statements then outlive the collections
   * of young garbage, and a page of 20 costs a quarter more.
   */
  async #dispatch(
    client: Client,
    { text, values, resolve, reject }: Asked,
    timeout: number,
    { custom = false, canRepeat = false }: DispatchOptions = {},
  ): Promise<void> {
    this.#pending += 1
    if (!custom) this.#texts.add(text)
    // Of several that were sent at once, all together have this long.
    this.#deadline = timeout ? performance.now() + timeout + this.#options.grace : Number.POSITIVE_INFINITY
    const rows: Row[] = []
    try {
      const options = custom ? UNPREPARED : PREPARED
      await client.sql.unsafe<Row[]>(text, values, options).forEach((row) => {
        rows.push(row)
      })
      this.#heard = performance.now()
      this.#settled()
      resolve(moveRows(rows))
    } catch (error) {
      if (error instanceof StaleStatementError && canRepeat) {
        this.#settled()
        return this.#dispatch(client, { text, values, resolve, reject }, timeout, { custom })
      }
      const known = translate(error instanceof StaleStatementError ? error.cause : error)
      // A socket reports its error before its end; in between the client still looks alive.
      if (isLoss(known)) this.#forget(client)
      else this.#judge(known)
      if (rows.length > 0) this.#retire(client)
      this.#settled()
      reject(known)
    }
  }

  /**
   * Replaces a connection before its next use. Called after an error that came behind the first row, the one state in
   * which the driver's row counter is wrong. Statements that wait behind that error are still answered. A client cannot
   * cause this cheaply: PostgreSQL sends the rows of INSERT, UPDATE and DELETE ... RETURNING only after the constraints
   * were checked, so that a unique or foreign key violation comes before the first row.
   */
  #retire(client: Client): void {
    if (this.#client === client) this.#expires = 0
  }

  #settled(): void {
    this.#pending -= 1
    if (this.#pending === 0) this.#deadline = Number.POSITIVE_INFINITY
  }

  /** After a refusal. What was the primary and has become a standby takes no writes any more: to be left soon. */
  #judge(error: unknown): void {
    this.#heard = performance.now()
    if (!(error instanceof DatabaseUnavailable) || error.code !== READ_ONLY) return
    publish('read-only')
    this.#expires = 0
  }

  /** For what may be sent twice: once more, where a connection that was idle turns out to be lost. */
  async #twice<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#ready()
    const began = performance.now()
    const isNew = this.#heard === undefined
    try {
      return await work(client)
    } catch (error) {
      const { again = true } = this.#options
      if (!again || isNew || !isLoss(error) || performance.now() - began > PATIENCE) throw error
      publish('lost')
      return work(await this.#ready())
    }
  }

  /** A connection for who starts anew; an old one goes, and with it what the server remembers for it. */
  async #ready(): Promise<Client> {
    if (this.#closed) throw new DatabaseUnavailable('The database is closed')
    if (this.#client && (performance.now() > this.#expires || this.#texts.size > MANY)) {
      void this.#client.end()
      this.#client = undefined
    }
    const client = this.#client
    if (!client) return this.#greeted()
    const idle = performance.now() - (this.#heard ?? Number.NEGATIVE_INFINITY)
    return idle < this.#options.trust || (await this.#holds(client)) ? client : this.#greeted()
  }

  #greeted(): Client | Promise<Client> {
    const { greet, statementTimeout } = this.#options
    const client = this.#connect()
    if (!greet) return client
    return greet((text, params = []) => this.#send(client, text, params, statementTimeout)).then(
      () => client,
      (error: unknown) => {
        this.#drop()
        throw error
      },
    )
  }

  /** The same for what is sent once. That the connection was ended since may have been told and not yet been read. */
  async #readyForOnce(): Promise<Client> {
    if (performance.now() - (this.#heard ?? 0) > FRESH) await turn()
    return this.#ready()
  }

  /** Asked, because a way that was cut is silent: without, what is sent on it is known to be lost only in the end. */
  async #holds(client: Client): Promise<boolean> {
    let asking = true
    const late = setTimeout(() => afterSockets(() => asking && this.#drop()), PATIENCE)
    try {
      await this.#send(client, 'select 1', [], this.#options.statementTimeout)
      return true
    } catch {
      publish('stale')
      this.#drop()
      return false
    } finally {
      asking = false
      clearTimeout(late)
    }
  }

  #drop(): void {
    const client = this.#client
    this.#client = undefined
    client?.destroy()
  }

  #forget(client: Client): void {
    if (this.#client === client) this.#client = undefined
  }

  #connect(): Client {
    const { lifetime } = this.#options
    const client = createClient({ ...this.#options, onEnd: () => this.#forget(client) })
    this.#client = client
    this.#heard = undefined
    this.#texts.clear()
    // Not all at the same time: those that were opened together do not close together.
    this.#expires = performance.now() + lifetime * (1 + Math.random())
    return client
  }
}
