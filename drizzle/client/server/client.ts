/**
 * One postgres.js client: sends statements, collects their rows, and keeps the times by which the server must answer
 * and the client be replaced.
 *
 * Why the rows are collected here: postgres.js 3.4.9 counts the rows of a result in one variable per connection
 * (`rows`, src/connection.js line 95), increments it for each row (line 523) and resets it only when a statement
 * completes (line 591). After a statement that fails behind its first row (a timeout, a cancellation), the next
 * result on the connection begins with as many holes. Statements that were sent in the same packet are answered
 * before the connection could be closed. With `forEach` the driver hands over each row and does not use the counter.
 * Reported as https://github.com/porsager/postgres/issues/1119 and /issues/1181; their fixes, /pull/1120 and
 * /pull/1190, were not merged in November 2026.
 */
import { publishRenewal } from '../channels.ts'
import { DatabaseUnavailable, isConnectionLoss, toDatabaseError } from '../errors.ts'
import type { Param, Queryable, Row, RunOptions } from '../types.ts'
import { toTextValues } from '../values.ts'
import { createDriver, type Driver, type DriverOptions, StaleStatementError } from './driver.ts'

export interface ClientOptions extends Omit<DriverOptions, 'onEnd'> {
  /** Milliseconds after the statement timeout until a server that has not answered is considered gone. */
  grace: number
  /** Milliseconds, and up to twice as many, until the client has expired. */
  lifetime: number
}

interface ClientRunOptions extends Pick<RunOptions, 'customPlan'> {
  /** Milliseconds that the statement may take, 0 for no limit; by default those of the client. */
  timeout?: number
  /** Whether a stale prepared statement is sent again. Not in a transaction, which that error aborts. */
  canRepeat?: boolean
}

/**
 * Greater than the number of statement texts in use. The server keeps every prepared statement of a connection, some
 * 20 kB each, and API clients choose the texts by their queries: after this many, the client has expired.
 */
const MAX_STATEMENT_TEXTS = 1000
/** SQLSTATE read_only_sql_transaction: a write on a standby. */
const READ_ONLY = '25006'

/** `simple: false` also without parameters: the simple query protocol would run several statements of one text. */
const PREPARED = { prepare: true, simple: false }
const UNPREPARED = { prepare: false, simple: false }

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

export class Client implements Queryable {
  readonly #driver: Driver
  readonly #statementTimeout: number
  readonly #grace: number
  /** The texts that were prepared. */
  readonly #texts = new Set<string>()
  /** Statements without an answer. */
  #unanswered = 0
  /** Time of `performance.now()` after which a server that has not answered is considered gone. */
  #deadline = Number.POSITIVE_INFINITY
  /** Time of `performance.now()`. Random: clients that were opened together are not replaced together. */
  #expiresAt: number
  #lastAnswer: number | undefined
  #isLost = false

  constructor({ grace, lifetime, ...options }: ClientOptions) {
    this.#statementTimeout = options.statementTimeout
    this.#grace = grace
    this.#expiresAt = performance.now() + lifetime * (1 + Math.random())
    this.#driver = createDriver({
      ...options,
      onEnd: () => {
        this.#isLost = true
      },
    })
  }

  /** Time of `performance.now()` of the last answer; undefined before the first. */
  get lastAnswer(): number | undefined {
    return this.#lastAnswer
  }

  /** Whether the connection has ended, or an error has shown that it will. */
  get isLost(): boolean {
    return this.#isLost
  }

  hasExpired(): boolean {
    return performance.now() > this.#expiresAt || this.#texts.size > MAX_STATEMENT_TEXTS
  }

  /** Returns whether the server has not answered in time. */
  isOverdue(): boolean {
    return performance.now() > this.#deadline
  }

  async run(text: string, params: readonly Param[] = [], options: ClientRunOptions = {}): Promise<Row[]> {
    const { customPlan = false, canRepeat = true, timeout = this.#statementTimeout } = options
    const values = toTextValues(params)
    if (!customPlan) this.#texts.add(text)
    this.#unanswered += 1
    // Statements in a pipeline have this time together.
    this.#deadline = timeout ? performance.now() + timeout + this.#grace : Number.POSITIVE_INFINITY
    const rows: Row[] = []
    try {
      await this.#driver.sql
        .unsafe<Row[]>(text, values, customPlan ? UNPREPARED : PREPARED)
        .forEach((row) => {
          rows.push(row)
        })
      this.#lastAnswer = performance.now()
      return moveRows(rows)
    } catch (error) {
      if (!(error instanceof StaleStatementError)) throw this.#handleError(error, rows.length > 0)
      if (!canRepeat) throw this.#handleError(error.cause, false)
      return this.run(text, params, { ...options, canRepeat: false })
    } finally {
      this.#unanswered -= 1
      if (this.#unanswered === 0) this.#deadline = Number.POSITIVE_INFINITY
    }
  }

  /** Ends the connection after its running statements, and closes the socket if that takes more than a second. */
  end(): Promise<void> {
    return this.#driver.end()
  }

  /** Closes the socket immediately: statements without an answer fail. */
  destroy(): void {
    this.#isLost = true
    this.#driver.destroy()
  }

  /** Returns the error for the caller, and decides whether the client can be used further. */
  #handleError(error: unknown, hasRows: boolean): unknown {
    const databaseError = toDatabaseError(error)
    // A socket reports its error before its end. In between, the client still looks usable.
    if (isConnectionLoss(databaseError)) this.#isLost = true
    else this.#lastAnswer = performance.now()
    // A primary that has become a standby is left before the next use.
    const isReadOnly = databaseError instanceof DatabaseUnavailable && databaseError.code === READ_ONLY
    if (isReadOnly) publishRenewal('read-only')
    // After an error that came behind the first row, the driver's row counter is wrong. Statements that wait behind
    // that error are still answered. An API client cannot cause this cheaply: PostgreSQL sends the rows of INSERT,
    // UPDATE and DELETE ... RETURNING only after the constraints were checked, so that a unique or foreign key
    // violation comes before the first row.
    if (isReadOnly || hasRows) this.#expiresAt = 0
    return databaseError
  }
}
