/**
 * Sends statements on a client of postgres.js, collects their rows, and keeps the time by which the server must answer.
 *
 * Why the rows are collected here: postgres.js 3.4.9 counts the rows of a result in one variable per connection
 * (`rows`, src/connection.js line 95), increments it for each row (line 523) and resets it only when a statement
 * completes (line 591). After a statement that fails behind its first row (a timeout, a cancellation), the next
 * result on the connection begins with as many holes. Statements that were sent in the same packet are answered
 * before the connection could be closed. With `forEach` the driver hands over each row and does not use the counter.
 * Reported as https://github.com/porsager/postgres/issues/1119 and /issues/1181; their fixes, /pull/1120 and
 * /pull/1190, were not merged in November 2026.
 */
import { isConnectionLoss, toDatabaseError } from '../errors.ts'
import type { Param, Row, RunOptions } from '../types.ts'
import { toTextValues } from '../values.ts'
import type { CurrentClient } from './current-client.ts'
import { type Client, StaleStatementError } from './driver.ts'
import type { PendingStatement } from './pipeline.ts'

interface DispatchOptions extends Pick<RunOptions, 'customPlan'> {
  /** Whether a stale prepared statement is sent again. Not in a transaction, which that error aborts. */
  canRepeat?: boolean
}

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

export class Dispatcher {
  readonly #current: CurrentClient
  readonly #grace: number
  /** Statements without an answer. */
  #unanswered = 0
  /** Time of `performance.now()` after which a server that has not answered is considered gone. */
  #deadline = Number.POSITIVE_INFINITY

  /** @param grace milliseconds that are added to the statement timeout */
  constructor(current: CurrentClient, grace: number) {
    this.#current = current
    this.#grace = grace
  }

  isOverdue(): boolean {
    return performance.now() > this.#deadline
  }

  /** Runs a statement. @param timeout its statement timeout in milliseconds; 0 for none */
  run(
    client: Client,
    text: string,
    params: readonly Param[],
    timeout: number,
    options: DispatchOptions = {},
  ): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      this.send(client, { text, values: toTextValues(params), resolve, reject }, timeout, options)
    })
  }

  /**
   * Sends a statement and calls its callbacks. They are not attached to the driver's promise: measured, the rows of all
   * later statements then survive the collections of the young generation, and a page of 20 costs a quarter more.
   */
  async send(
    client: Client,
    { text, values, resolve, reject }: PendingStatement,
    timeout: number,
    { customPlan = false, canRepeat = false }: DispatchOptions = {},
  ): Promise<void> {
    this.#unanswered += 1
    if (!customPlan) this.#current.recordText(text)
    // Statements in a pipeline have this time together.
    this.#deadline = timeout ? performance.now() + timeout + this.#grace : Number.POSITIVE_INFINITY
    const rows: Row[] = []
    try {
      const options = customPlan ? UNPREPARED : PREPARED
      await client.sql.unsafe<Row[]>(text, values, options).forEach((row) => {
        rows.push(row)
      })
      this.#current.recordAnswer()
      this.#countAnswer()
      resolve(moveRows(rows))
    } catch (error) {
      if (error instanceof StaleStatementError && canRepeat) {
        this.#countAnswer()
        return this.send(client, { text, values, resolve, reject }, timeout, { customPlan })
      }
      const databaseError = toDatabaseError(error instanceof StaleStatementError ? error.cause : error)
      // A socket reports its error before its end. In between, the client still looks usable.
      if (isConnectionLoss(databaseError)) this.#current.forget(client)
      else this.#current.recordError(databaseError)
      if (rows.length > 0) this.#current.retire(client)
      this.#countAnswer()
      reject(databaseError)
    }
  }

  #countAnswer(): void {
    this.#unanswered -= 1
    if (this.#unanswered === 0) this.#deadline = Number.POSITIVE_INFINITY
  }
}
