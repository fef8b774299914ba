/** The driver client that a connection uses now, and the facts that decide when it is replaced by a new one. */
import { publishRenewal } from '../channels.ts'
import { DatabaseUnavailable } from '../errors.ts'
import { type Client, type ClientOptions, createClient } from './driver.ts'

interface CurrentClientOptions extends Omit<ClientOptions, 'onEnd'> {
  /** Milliseconds, and up to twice as many, until a client is replaced. */
  lifetime: number
}

/**
 * Greater than the number of statement texts in use. The server keeps every prepared statement of a connection, some
 * 20 kB each, and clients choose the texts by their queries: after this many, the client is replaced.
 */
const MAX_STATEMENT_TEXTS = 1000
/** SQLSTATE read_only_sql_transaction: a write on a standby. */
const READ_ONLY = '25006'

export class CurrentClient {
  readonly #options: CurrentClientOptions
  #client: Client | undefined
  /** The texts that were prepared on this client. */
  readonly #texts = new Set<string>()
  /** Time of `performance.now()` of the last answer on this client; undefined before the first. */
  #lastAnswer: number | undefined
  #expiresAt = 0
  #isClosed = false

  constructor(options: CurrentClientOptions) {
    this.#options = options
  }

  get lastAnswer(): number | undefined {
    return this.#lastAnswer
  }

  /**
   * Returns the client, or undefined if a new one must be opened. Ends a client that has expired.
   * @throws DatabaseUnavailable after `close`
   */
  get(): Client | undefined {
    if (this.#isClosed) throw new DatabaseUnavailable('The database is closed')
    if (this.#client && (performance.now() > this.#expiresAt || this.#texts.size > MAX_STATEMENT_TEXTS)) {
      void this.#client.end()
      this.#client = undefined
    }
    return this.#client
  }

  open(): Client {
    const client = createClient({ ...this.#options, onEnd: () => this.forget(client) })
    this.#client = client
    this.#lastAnswer = undefined
    this.#texts.clear()
    // A random lifetime: connections that were opened together are not replaced together.
    this.#expiresAt = performance.now() + this.#options.lifetime * (1 + Math.random())
    return client
  }

  recordText(text: string): void {
    this.#texts.add(text)
  }

  recordAnswer(): void {
    this.#lastAnswer = performance.now()
  }

  /** Records an error that the server answered. A primary that has become a standby is left before the next use. */
  recordError(error: unknown): void {
    this.recordAnswer()
    if (!(error instanceof DatabaseUnavailable) || error.code !== READ_ONLY) return
    publishRenewal('read-only')
    this.#expiresAt = 0
  }

  /**
   * Replaces a client before its next use. Called after an error that came behind the first row, the one state in
   * which the driver's row counter is wrong. Statements that wait behind that error are still answered. An API client
   * cannot cause this cheaply: PostgreSQL sends the rows of INSERT, UPDATE and DELETE ... RETURNING only after the
   * constraints were checked, so that a unique or foreign key violation comes before the first row.
   */
  retire(client: Client): void {
    if (this.#client === client) this.#expiresAt = 0
  }

  /** Stops using a client whose connection was lost. */
  forget(client: Client): void {
    if (this.#client === client) this.#client = undefined
  }

  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void {
    const client = this.#client
    this.#client = undefined
    client?.destroy()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#client?.end()
  }
}
