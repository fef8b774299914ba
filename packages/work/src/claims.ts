/** The claims of this process: they are renewed while their attempts run, and attempts whose claim is lost are aborted. */
import type { Connection } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/concurrency'
import type { ClaimedWork, WorkKind } from './kinds.ts'
import { getLease, renewWork } from './work-store.ts'

/** Renewals in the time of a lease. */
const RENEWALS = 3
const RETRY_DELAY_MS = 100
const MAX_RETRY_DELAY_MS = 1_000
/** The part of a lease after which an attempt is aborted that could not renew it, so that it ends before another begins. */
const SAFE_PART = 5 / 6
const MAX_TIMER_MS = 60_000

/** The claim was not renewed in time, or another process has the row now. */
export class ClaimLostError extends Error {
  override readonly name = 'ClaimLostError'
  constructor() {
    super('the claim was lost: the database did not answer in time, or the event loop was blocked')
  }
}

/** A row whose claim this process has. */
export interface Held {
  row: ClaimedWork
  kind: WorkKind
  controller: AbortController
  /** When it was claimed or renewed: a time of `performance.now()` before the statement. */
  renewedAt: number
  timer: NodeJS.Timeout
}

const abort = (controller: AbortController, reason: string) =>
  controller.abort(new DOMException(reason, 'AbortError'))

const setLossTimer = (controller: AbortController, kind: WorkKind, renewedAt: number): NodeJS.Timeout =>
  setTimeout(
    () => controller.abort(new ClaimLostError()),
    renewedAt + getLease(kind) * SAFE_PART - performance.now(),
  ).unref()

export class Claims {
  readonly #database: Connection
  readonly #held = new Map<string, Held>()
  readonly #renewal: BackgroundTask

  constructor(database: Connection) {
    this.#database = database
    this.#renewal = new BackgroundTask({
      work: () => this.#renew(),
      getDelay: () => Math.max(0, this.#getNextRenewal() - performance.now()),
      ...{ retryDelay: RETRY_DELAY_MS, maxRetryDelay: MAX_RETRY_DELAY_MS },
      // Without an answer, the timer of each row ends its attempt.
      onFailure: () => {},
    })
    this.#renewal.start(MAX_TIMER_MS)
  }

  /** @param claimedAt when the row was claimed: a time of `performance.now()` before the statement */
  hold(row: ClaimedWork, kind: WorkKind, claimedAt: number): Held {
    const controller = new AbortController()
    const held = {
      row,
      kind,
      controller,
      renewedAt: claimedAt,
      timer: setLossTimer(controller, kind, claimedAt),
    }
    this.#held.set(row.id, held)
    this.#renewal.wake()
    return held
  }

  /** Renews a claim no more: that statement and the one which stores the result could deadlock. */
  drop({ row, timer }: Held): void {
    clearTimeout(timer)
    this.#held.delete(row.id)
  }

  /** Waits for a renewal that runs: it may have begun before claims were dropped. */
  async waitForRenewal(): Promise<void> {
    await this.#renewal.running
  }

  /** Aborts the attempts that must not delay a shutdown. */
  abortImpatient(reason: string): void {
    for (const { kind, controller } of this.#held.values()) if (!kind.isPatient) abort(controller, reason)
  }

  /** Aborts all attempts. */
  abortAll(reason: string): void {
    for (const { controller, timer } of this.#held.values()) {
      clearTimeout(timer)
      abort(controller, reason)
    }
  }

  /** Renews no claim any more. */
  stop(): Promise<void> {
    return this.#renewal.stop()
  }

  #getNextRenewal(): number {
    let next = performance.now() + MAX_TIMER_MS
    for (const { kind, renewedAt } of this.#held.values())
      next = Math.min(next, renewedAt + getLease(kind) / RENEWALS)
    return next
  }

  async #renew(): Promise<void> {
    const renewedAt = performance.now()
    const due = [...this.#held.values()].filter(
      (held) =>
        held.renewedAt + getLease(held.kind) / RENEWALS <= renewedAt + 1 && !held.controller.signal.aborted,
    )
    if (due.length === 0) return
    const renewed = new Set(await renewWork(this.#database, due))
    for (const held of due) {
      // Its attempt has ended since.
      if (this.#held.get(held.row.id) !== held) continue
      clearTimeout(held.timer)
      held.renewedAt = renewedAt
      if (renewed.has(held.row.id)) held.timer = setLossTimer(held.controller, held.kind, renewedAt)
      else held.controller.abort(new ClaimLostError())
    }
  }
}
