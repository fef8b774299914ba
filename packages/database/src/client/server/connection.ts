/**
 * One connection to a server. Runs statements and transactions, and opens a new postgres.js client when the one before
 * is lost or expired.
 *
 * Why not postgres.js' own pool (3.4.9): when a connection dies inside `sql.begin`, it writes the ROLLBACK to a
 * closed socket, which ends the process; a connection that died with a write pending never sends another
 * byte; one that is closed during authentication is retried without pause or limit, while its query waits; and a
 * query that waits may run on another connection than the transaction it belongs to. A client with one
 * connection, discarded with its socket, has none of these faults: a statement on a lost connection fails immediately.
 */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { publishRenewal } from '../channels.ts'
import { DatabaseUnavailable, isConnectionLoss } from '../errors.ts'
import { runTransactionBody } from '../transaction.ts'
import type { Param, Queryable, Row, RunOptions, TransactionClient, TransactionOptions } from '../types.ts'
import { Client, type ClientOptions } from './client.ts'
import { withTimeout } from './ping.ts'

export interface ServerConnectionOptions
  extends Pick<ClientOptions, 'address' | 'statementTimeout' | 'lifetime' | 'onNotice'>,
    Partial<typeof DEFAULTS> {
  /** Called with every new connection. The connection is not used if it throws. */
  onConnect?: (connection: Queryable) => Promise<void>
}

/** A statement with the callbacks of its caller. */
export interface PendingStatement {
  text: string
  params: readonly Param[]
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

const DEFAULTS = {
  lockTimeout: 0,
  connectTimeout: 2000,
  grace: 1000,
  /** A connection is pinged before its use if its last answer is older, in milliseconds. */
  pingAfterIdleMs: 1000,
  /**
   * Whether a read is sent again if the connection was idle and turns out to be lost. Not for replicas: connecting to
   * one that is away takes up to a second, in which the primary has answered.
   */
  retryIdleReads: true,
}

/** Time since the last answer in which the end of the connection cannot have arrived unread. */
const UNREAD_FREE_MS = 5
/** Time in which a ping before use must be answered; and in which a loss is one of a connection that was idle. */
const PING_TIMEOUT_MS = 1000
/**
 * For statements without a timeout: if this process ends, the server should notice before the statement ends. Only
 * servers on Linux support the check; others would refuse the setting. PostgreSQL 17 has another timeout, which a
 * database or a role may set.
 */
const getUnlimitedSql = (isLocal: boolean) =>
  `select set_config(name, value, ${isLocal}) from pg_settings
    join (values ('client_connection_check_interval', '1000'), ('transaction_timeout', '0')) v (name, value) using (name)
    where name = 'transaction_timeout' or version() ~ 'linux'`

/** Only reads may be sent twice: if the connection is lost, it is unknown whether a statement was carried out. */
export const isRead = (text: string): boolean => /^\s*select\b/i.test(text)

export class ServerConnection implements Queryable {
  readonly #options: ServerConnectionOptions & typeof DEFAULTS
  #client: Client | undefined
  #isClosed = false

  constructor(options: ServerConnectionOptions) {
    this.#options = { ...DEFAULTS, ...options }
  }

  async run(text: string, params?: readonly Param[], options?: RunOptions): Promise<Row[]> {
    if (isRead(text)) return this.#retryIfIdle((client) => client.run(text, params, options))
    return (await this.#getWriteClient()).run(text, params, options)
  }

  /**
   * Sends reads together and calls the callbacks of each, except of those that the connection was lost for.
   * @throws DatabaseUnavailable if the connection was lost
   */
  async readAll(reads: readonly PendingStatement[]): Promise<void> {
    let unanswered = reads
    await this.#retryIfIdle(async (client) => {
      const { lost, loss } = await sendAll(client, unanswered)
      unanswered = lost
      if (loss) throw loss
    })
  }

  /** As `readAll`, for writes, each a transaction of its own. */
  async writeAll(writes: readonly PendingStatement[]): Promise<void> {
    const { loss } = await sendAll(await this.#getWriteClient(), writes)
    if (loss) throw loss
  }

  async transaction<T>(
    work: (tx: TransactionClient) => Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    const { statementTimeout: timeout = this.#options.statementTimeout, isSnapshot = false } = options
    let begun: Promise<Client> | undefined
    // All statements use one client: if it is lost, later ones fail instead of running outside of the transaction.
    const run: Queryable['run'] = async (text, params) => {
      begun ??= this.#begin(timeout, isSnapshot ? 'repeatable read, read only' : 'read committed')
      return (await begun).run(text, params, { timeout, canRepeat: false })
    }
    try {
      const result = await runTransactionBody(run, work, options)
      if (begun) await run('commit')
      return result
    } catch (error) {
      // A COMMIT that the server refused has ended the transaction too, and ROLLBACK only gives a warning. If ROLLBACK
      // fails, the connection may still be inside the transaction and must not be used again.
      if (begun) await run('rollback').catch(() => this.destroy())
      throw error
    }
  }

  /** Closes the connection if the server has not answered in time, and returns whether. For several calls a second. */
  closeIfSilent(): boolean {
    if (!this.#client?.isOverdue()) return false
    publishRenewal('silent')
    this.destroy()
    return true
  }

  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void {
    this.#client?.destroy()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#client?.end()
  }

  /** Begins a transaction. May be retried as a read is: a transaction that has only begun has changed nothing. */
  #begin(timeout: number, mode: string): Promise<Client> {
    return this.#retryIfIdle(async (client) => {
      await client.run(`begin isolation level ${mode}`)
      if (timeout !== this.#options.statementTimeout)
        await client.run(`set local statement_timeout = ${timeout}`)
      if (timeout === 0 && this.#options.lockTimeout > 0) await client.run('set local lock_timeout = 0')
      if (timeout === 0) await client.run(getUnlimitedSql(true))
      return client
    })
  }

  /** Runs `work`, and once more if the connection was idle before and turns out to be lost. */
  async #retryIfIdle<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#getClient()
    const start = performance.now()
    const isNew = client.lastAnswer === undefined
    try {
      return await work(client)
    } catch (error) {
      const wasIdle = !isNew && performance.now() - start <= PING_TIMEOUT_MS
      if (!this.#options.retryIdleReads || !wasIdle || !isConnectionLoss(error)) throw error
      publishRenewal('lost')
      return work(await this.#getClient())
    }
  }

  /** Returns a client for statements that must not be sent twice, after any unread end of the connection is read. */
  async #getWriteClient(): Promise<Client> {
    if (performance.now() - (this.#client?.lastAnswer ?? 0) > UNREAD_FREE_MS) await nextIteration()
    return this.#getClient()
  }

  /**
   * Returns the current client, or a new one if it is lost, has expired or does not answer a ping.
   * @throws DatabaseUnavailable after `close`
   */
  async #getClient(): Promise<Client> {
    if (this.#isClosed) throw new DatabaseUnavailable('The database is closed')
    const client = this.#client
    if (!client || client.isLost) return this.#openClient()
    if (client.hasExpired()) {
      void client.end()
      return this.#openClient()
    }
    const idle = performance.now() - (client.lastAnswer ?? Number.NEGATIVE_INFINITY)
    return idle < this.#options.pingAfterIdleMs || (await answersPing(client)) ? client : this.#openClient()
  }

  async #openClient(): Promise<Client> {
    const client = new Client(this.#options)
    this.#client = client
    try {
      await ensureSearchPath(client, this.#options.address.searchPath)
      await this.#options.onConnect?.(client)
    } catch (error) {
      client.destroy()
      throw error
    }
    return client
  }
}

/** Sends statements without waiting for the answers in between. The callbacks of the lost ones are not called. */
async function sendAll(client: Client, statements: readonly PendingStatement[]) {
  const lost: PendingStatement[] = []
  let loss: unknown
  const send = async (statement: PendingStatement) => {
    try {
      statement.resolve(await client.run(statement.text, statement.params))
    } catch (error) {
      if (!isConnectionLoss(error)) statement.reject(error)
      else {
        lost.push(statement)
        loss = error
      }
    }
  }
  await Promise.all(statements.map(send))
  return { lost, loss }
}

/**
 * Destroys the client if it does not answer. A network that drops packets gives no error: without a ping, the loss of a
 * statement would show only by timeout.
 */
async function answersPing(client: Client): Promise<boolean> {
  try {
    await withTimeout(client.run('select 1'), PING_TIMEOUT_MS)
    return true
  } catch {
    publishRenewal('stale')
    client.destroy()
    return false
  }
}

/**
 * Checks that a pooler between this process and the server has passed on or set the search path: otherwise statements
 * would find the tables of another schema.
 * @throws DatabaseUnavailable
 */
async function ensureSearchPath(connection: Queryable, expected: string | undefined): Promise<void> {
  if (expected === undefined) return
  const [row] = await connection.run(`select current_setting('search_path') as path`)
  const schemas = expected.replaceAll('"', '')
  if (String(row?.path).replaceAll('"', '') === schemas) return
  throw new DatabaseUnavailable(
    `Connections have the search_path ${row?.path} instead of ${schemas} (DATABASE_SCHEMA): the pooler must pass it on or set it`,
  )
}

/**
 * Runs a statement that cannot be in a transaction, without a timeout, on a connection that is opened for it. If this
 * process ends, the server cancels the statement within a second.
 */
export async function runAlone(
  options: Pick<ServerConnectionOptions, 'address' | 'lifetime' | 'onNotice'>,
  text: string,
): Promise<void> {
  const connection = new ServerConnection({
    ...options,
    statementTimeout: 0,
    onConnect: async (client) => void (await client.run(getUnlimitedSql(false))),
  })
  try {
    await connection.run(text)
  } finally {
    await connection.close()
  }
}
