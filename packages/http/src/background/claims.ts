/**
 * Work that one process at a time does for a row: it claims the row with a lease, and renews the lease while it works. A
 * process that was killed loses its claim when the lease ends.
 */

import { type Database, prepare } from '@resource-api/database'
import {
  BackgroundTask,
  type eventConsumers,
  type scheduledJobs,
  toNames,
} from '@resource-api/database/internal'
import { type SQL, sql } from 'drizzle-orm'
import { serializeError } from '../observability/logging/errors.ts'

type ClaimedTable = typeof scheduledJobs | typeof eventConsumers

/** How long a claim lasts that is not renewed. */
const LEASE_MS = 30_000
/** Renewals in the time of a lease. */
const RENEWALS = 3
/** The part of a lease after which work is aborted that could not renew it, so that it ends before another process begins. */
const SAFE_PART = 5 / 6
const RETRY_DELAY_MS = 1_000
const MAX_ERROR_LENGTH = 1_000

/** A row that this process has claimed. */
export interface Claimed {
  name: string
  claim_id: string
  /** Before the statement that claimed it: a time of `performance.now()`. */
  claimedAt: number
}

/** The claim was not renewed in time, or another process has the row now. */
class ClaimLostError extends Error {
  override readonly name = 'ClaimLostError'
  constructor() {
    super('the claim was lost: the database did not answer in time, or the event loop was blocked')
  }
}

/** Returns an error as it is stored: as in the log, without values of statements. PostgreSQL stores no NUL. */
export function toErrorText(error: unknown): string {
  const { type, message } = serializeError(error)
  return `${type}: ${message}`.replaceAll('\0', '').slice(0, MAX_ERROR_LENGTH)
}

/** The condition that no process has a claim. */
export const isFree = ({ leased_until }: ClaimedTable): SQL =>
  sql`(${leased_until} is null or ${leased_until} <= statement_timestamp())`

/** The milliseconds until a lease ends; null or negative if no process has a claim. */
export const leaseRemainder = ({ leased_until }: ClaimedTable): SQL =>
  sql`(extract(epoch from ${leased_until} - statement_timestamp()) * 1000)::float8`

/** The part of SET that claims a row. Placeholders: `claimId` and those of `leaseValues`. */
export const setClaim = ({ claim_id, leased_until }: ClaimedTable): SQL =>
  sql`${toNames(claim_id)} = ${sql.placeholder('claimId')}::uuid, ${toNames(leased_until)} = statement_timestamp() + ${sql.placeholder('leaseMs')} * interval '1 millisecond'`

/** The part of SET that gives back a claim. */
export const clearClaim = ({ claim_id, leased_until }: ClaimedTable): SQL =>
  sql`${toNames(claim_id)} = null, ${toNames(leased_until)} = null`

/** The condition that this process still has its claim. Placeholders: `name`, `claimId`. */
export const isClaimed = ({ name, claim_id }: ClaimedTable): SQL =>
  sql`${name} = ${sql.placeholder('name')} and ${claim_id} = ${sql.placeholder('claimId')}::uuid`

/**
 * Runs work with a signal that is aborted with the reason of `signal`, or after `timeoutMs` with a TimeoutError.
 * @param onTimeout called then: the work goes on until it heeds its signal
 */
export async function runWithTimeout<T>(
  signal: AbortSignal,
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<T>,
  onTimeout: () => void,
): Promise<T> {
  const controller = new AbortController()
  const abort = () => controller.abort(signal.reason)
  if (signal.aborted) abort()
  // Not `AbortSignal.any`, which keeps each derived signal for as long as the first one lives.
  signal.addEventListener('abort', abort)
  let timeout: DOMException | undefined
  const timer = setTimeout(() => {
    timeout = new DOMException(`took longer than ${timeoutMs / 1000} s`, 'TimeoutError')
    controller.abort(timeout)
    onTimeout()
  }, timeoutMs).unref()
  try {
    const result = await work(controller.signal)
    // Work that returned early because of its signal has not succeeded.
    if (timeout) throw timeout
    return result
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  }
}

export interface Claims {
  /** The value of the placeholder in `setClaim`. */
  leaseMs: number
  /**
   * Runs work while this process has the claim. Its signal is aborted at a shutdown, and with a ClaimLostError when another
   * process may claim the row.
   */
  hold<T>(claimed: Claimed, stopping: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

/**
 * @param database the primary database
 * @param leaseMs how long a claim lasts that is not renewed
 */
export function createClaims(table: ClaimedTable, database: Database, leaseMs = LEASE_MS): Claims {
  const renewClaim = prepare((db) =>
    db.execute(sql`update ${table} set ${setClaim(table)} where ${isClaimed(table)} returning ${table.name}`),
  )

  return {
    leaseMs,
    async hold({ name, claim_id: claimId, claimedAt }, stopping, work) {
      const controller = new AbortController()
      const lose = () => controller.abort(new ClaimLostError())
      const loseUnlessRenewed = (renewedAt: number) =>
        setTimeout(lose, renewedAt + leaseMs * SAFE_PART - performance.now()).unref()
      let timer = loseUnlessRenewed(claimedAt)
      const renewal = new BackgroundTask({
        async work() {
          const renewedAt = performance.now()
          const rows = await renewClaim(database, { name, claimId, leaseMs })
          if (rows.length === 0) return lose()
          clearTimeout(timer)
          timer = loseUnlessRenewed(renewedAt)
        },
        getDelay: () => leaseMs / RENEWALS,
        retryDelay: Math.min(RETRY_DELAY_MS, leaseMs / RENEWALS),
        // Without an answer, the timer ends the work.
        onFailure: () => {},
      })
      renewal.start(leaseMs / RENEWALS)
      const stop = () => controller.abort(stopping.reason)
      if (stopping.aborted) stop()
      stopping.addEventListener('abort', stop)
      try {
        return await work(controller.signal)
      } finally {
        stopping.removeEventListener('abort', stop)
        clearTimeout(timer)
        await renewal.stop()
        clearTimeout(timer)
      }
    },
  }
}
