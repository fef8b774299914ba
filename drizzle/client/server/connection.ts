/**
 * One connection to a server. Runs statements and transactions, and opens a new postgres.js client, with exactly one
 * socket in its life, when the one before is lost or expired.
 *
 * Why not postgres.js' own pool (3.4.9): when a connection dies inside `sql.begin`, it writes the ROLLBACK to a
 * closed socket, which ends the process; a connection that died with a write pending never sends another
 * byte; one that is closed during authentication is retried without pause or limit, while its query waits; and a
 * query that waits may run on another connection than the transaction it belongs to. A client with one
 * connection, discarded with its socket, has none of these faults: a statement on a lost connection fails immediately.
 */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { publishRenewal } from '../channels.ts'
import { isConnectionLoss } from '../errors.ts'
import { runTransactionBody } from '../transaction.ts'
import type { Connection, Param, Row, RunOptions, TransactionOptions } from '../types.ts'
import type { Address } from './address.ts'
import { CurrentClient } from './current-client.ts'
import { Dispatcher } from './dispatch.ts'
import type { Client } from './driver.ts'
import { afterPendingReads } from './ping.ts'
import { type PendingStatement, runPipeline } from './pipeline.ts'

export interface ServerConnectionOptions {
  address: Address
  /** Milliseconds a statement may take; 0 for no limit. */
  statementTimeout: number
  /** Milliseconds after the statement timeout until a server that has not answered is considered gone. */
  grace?: number
  /** Milliseconds for connecting and authentication. */
  connectTimeout?: number
  /** A connection is pinged before its use if its last answer is older. */
  pingAfterIdleMs?: number
  onNotice?: ((message: string) => void) | undefined
  /** Milliseconds, and up to twice as many, until a client is replaced by a new one. */
  lifetime?: number | undefined
  /** Whether a read is sent again if the connection was idle and turns out to be lost. Default: true. */
  retryIdleReads?: boolean
  /** Called with every new connection. The connection is not used if it throws. */
  onConnect?: ((run: Connection['run']) => Promise<void>) | undefined
}

const LIFETIME_MS = 30 * 60_000
const CONNECT_TIMEOUT_MS = 2000
const GRACE_MS = 1000
const PING_AFTER_IDLE_MS = 1000
/** Time since the last answer in which the end of the connection cannot have arrived unread. */
const UNREAD_FREE_MS = 5
/** Time in which a ping before use must be answered; and in which a loss is one of a connection that was idle. */
const PING_TIMEOUT_MS = 1000
/**
 * For statements without a timeout: if this process ends, the server should notice before the statement ends. Only
 * servers on Linux support the check; others would refuse the setting.
 */
const CHECK_CLIENT_SQL = `select set_config('client_connection_check_interval', '1000', true) where version() ~ 'linux'`

/** Only reads may be sent twice: if the connection is lost, it is unknown whether a statement was carried out. */
const isRead = (text: string): boolean => /^\s*select\b/i.test(text)

export class ServerConnection {
  readonly #current: CurrentClient
  readonly #dispatcher: Dispatcher
  readonly #statementTimeout: number
  readonly #pingAfterIdleMs: number
  readonly #retryIdleReads: boolean
  readonly #onConnect: ServerConnectionOptions['onConnect']

  constructor(options: ServerConnectionOptions) {
    const { address, statementTimeout, onNotice, connectTimeout = CONNECT_TIMEOUT_MS } = options
    const { lifetime = LIFETIME_MS, grace = GRACE_MS } = options
    this.#current = new CurrentClient({ address, statementTimeout, connectTimeout, onNotice, lifetime })
    this.#dispatcher = new Dispatcher(this.#current, grace)
    this.#statementTimeout = statementTimeout
    this.#pingAfterIdleMs = options.pingAfterIdleMs ?? PING_AFTER_IDLE_MS
    this.#retryIdleReads = options.retryIdleReads ?? true
    this.#onConnect = options.onConnect
  }

  async run(
    text: string,
    params: readonly Param[] = [],
    { customPlan = false }: RunOptions = {},
  ): Promise<Row[]> {
    const send = (client: Client) =>
      this.#dispatcher.run(client, text, params, this.#statementTimeout, { customPlan, canRepeat: true })
    return isRead(text) ? this.#retryIfIdle(send) : send(await this.#getWriteClient())
  }

  /**
   * Pipelines reads in one packet. Calls the callbacks of each, except of those that the connection was lost for.
   * @throws DatabaseUnavailable if the connection was lost
   */
  async readAll(statements: readonly PendingStatement[]): Promise<void> {
    let unanswered = statements
    await this.#retryIfIdle(async (client) => {
      const { lost, error } = await runPipeline(unanswered, (statement) =>
        this.#dispatcher.send(client, statement, this.#statementTimeout, { canRepeat: true }),
      )
      unanswered = lost
      if (error) throw error
    })
  }

  async transaction<T>(work: (tx: Connection) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    const timeout = options.statementTimeout ?? this.#statementTimeout
    let begun: Promise<Client> | undefined
    // All statements use one client: if it is lost, later ones fail instead of running outside of the transaction.
    const send = async (text: string, params: readonly Param[] = []) => {
      begun ??= this.#begin(timeout)
      return this.#dispatcher.run(await begun, text, params, timeout)
    }
    try {
      const result = await runTransactionBody(send, work)
      if (begun) await send('commit')
      return result
    } catch (error) {
      // A COMMIT that the server refused has ended the transaction too, and ROLLBACK only gives a warning. If ROLLBACK
      // fails, the connection may still be inside the transaction and must not be used again.
      if (begun) await send('rollback').catch(() => this.#current.destroy())
      throw error
    }
  }

  /** Closes the connection if the server has not answered in time. To be called several times a second. */
  closeIfSilent(): void {
    if (!this.#dispatcher.isOverdue()) return
    afterPendingReads(() => {
      if (!this.#dispatcher.isOverdue()) return
      publishRenewal('silent')
      this.#current.destroy()
    })
  }

  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void {
    this.#current.destroy()
  }

  close(): Promise<void> {
    return this.#current.close()
  }

  /** Begins a transaction. May be retried as a read is: a transaction that has only begun has changed nothing. */
  async #begin(timeout: number): Promise<Client> {
    return this.#retryIfIdle(async (client) => {
      await this.#dispatcher.run(client, 'begin isolation level read committed', [], this.#statementTimeout)
      if (timeout !== this.#statementTimeout)
        await this.#dispatcher.run(
          client,
          `set local statement_timeout = ${timeout}`,
          [],
          this.#statementTimeout,
        )
      if (timeout === 0) await this.#dispatcher.run(client, CHECK_CLIENT_SQL, [], this.#statementTimeout)
      return client
    })
  }

  /** Runs `work`, and once more if the connection was idle before and turns out to be lost. */
  async #retryIfIdle<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#getClient()
    const start = performance.now()
    const isNew = this.#current.lastAnswer === undefined
    try {
      return await work(client)
    } catch (error) {
      const wasIdle = !isNew && performance.now() - start <= PING_TIMEOUT_MS
      if (!this.#retryIdleReads || !wasIdle || !isConnectionLoss(error)) throw error
      publishRenewal('lost')
      return work(await this.#getClient())
    }
  }

  /** Returns the current client, or a new one if there is none or it does not answer a ping. */
  async #getClient(): Promise<Client> {
    const client = this.#current.get()
    if (!client) return this.#openClient()
    const idle = performance.now() - (this.#current.lastAnswer ?? Number.NEGATIVE_INFINITY)
    return idle < this.#pingAfterIdleMs || (await this.#answersPing(client)) ? client : this.#openClient()
  }

  /** Returns a client for statements that must not be sent twice, after any unread end of the connection is read. */
  async #getWriteClient(): Promise<Client> {
    if (performance.now() - (this.#current.lastAnswer ?? 0) > UNREAD_FREE_MS) await nextIteration()
    return this.#getClient()
  }

  #openClient(): Client | Promise<Client> {
    const client = this.#current.open()
    if (!this.#onConnect) return client
    return this.#onConnect((text, params = []) =>
      this.#dispatcher.run(client, text, params, this.#statementTimeout),
    ).then(
      () => client,
      (error: unknown) => {
        this.#current.destroy()
        throw error
      },
    )
  }

  /**
   * A network that drops packets gives no error: without a ping, the loss of a statement would show only by timeout.
   */
  async #answersPing(client: Client): Promise<boolean> {
    let isWaiting = true
    const timer = setTimeout(
      () => afterPendingReads(() => isWaiting && this.#current.destroy()),
      PING_TIMEOUT_MS,
    )
    try {
      await this.#dispatcher.run(client, 'select 1', [], this.#statementTimeout)
      return true
    } catch {
      publishRenewal('stale')
      this.#current.destroy()
      return false
    } finally {
      isWaiting = false
      clearTimeout(timer)
    }
  }
}
