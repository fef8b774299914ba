/** The attempts of rows that this process has claimed: what they need is read, and each ends with a result. */
import type { Connection } from '@resource-api/database'
import { isConnectionLoss } from '@resource-api/database/errors'
import type { FastifyBaseLogger } from 'fastify'
import { ClaimLostError, type Held } from './claims.ts'
import { type ClaimedWork, GIVEN_BACK, type WorkKind, type WorkResult } from './kinds.ts'
import { savePayload } from './work-store.ts'

/** Time in which an attempt must heed its signal after its deadline; then it is given up. */
const GRACE_MS = 10_000
/** After which time a row is attempted again whose failure could not be handled. */
const UNHANDLED_DELAY_MS = 60_000

/** What `load` has read for a row, or why it could not. */
export type Input = { details?: unknown; error?: unknown }

const INTERRUPTED = 'work was interrupted'

export interface AttemptOptions {
  database: Connection
  log: Pick<FastifyBaseLogger, 'info' | 'warn' | 'error'>
}

/**
 * Reads what attempts need. If that fails, each half of the rows is read by itself, so that one row which makes it fail
 * does not keep the others from their attempts.
 * @returns nothing for rows that are given back: those that were deleted, and all while the database is away
 */
export async function loadInputs(
  log: AttemptOptions['log'],
  kind: WorkKind,
  load: NonNullable<WorkKind['load']>,
  rows: readonly ClaimedWork[],
): Promise<ReadonlyMap<string, Input>> {
  try {
    const loaded = await load(rows)
    return new Map([...loaded].map(([id, details]) => [id, { details }]))
  } catch (err) {
    if (isConnectionLoss(err)) {
      log.warn({ err, kind: kind.name }, 'what work needs could not be read')
      return new Map()
    }
    const [first] = rows
    if (first && rows.length === 1) return new Map([[first.id, { error: err }]])
    const middle = Math.ceil(rows.length / 2)
    const before = await loadInputs(log, kind, load, rows.slice(0, middle))
    return new Map([...before, ...(await loadInputs(log, kind, load, rows.slice(middle)))])
  }
}

/** Makes the attempt of a row. @returns the result, whatever happens */
export async function makeAttempt(
  { database, log }: AttemptOptions,
  { row, kind, controller }: Held,
  { details, error: failure }: Input,
): Promise<WorkResult> {
  const about = { kind: kind.name, id: row.id }
  const startedAt = performance.now()
  const { signal } = controller
  const { timeoutMs, isExclusive } = kind
  const onTimeout = () => log.warn({ ...about, timeout_ms: timeoutMs }, 'work takes longer than its timeout')
  try {
    if (failure !== undefined) throw failure
    return await runWithTimeout(signal, { timeoutMs, isExclusive, onTimeout }, (runSignal) =>
      kind.run(row, { signal: runSignal, details, save: (payload) => savePayload(database, row, payload) }),
    )
  } catch (error) {
    if (signal.aborted) return GIVEN_BACK
    try {
      return kind.fail(row, error, Math.round(performance.now() - startedAt))
    } catch (err) {
      log.error({ err, ...about }, 'the failure of work could not be handled')
      return { ...GIVEN_BACK, delayMs: UNHANDLED_DELAY_MS }
    }
  } finally {
    if (signal.reason instanceof ClaimLostError) log.warn({ ...about, err: signal.reason }, INTERRUPTED)
    else if (signal.aborted) log.info({ ...about, reason: String(signal.reason) }, INTERRUPTED)
  }
}

interface Deadline {
  timeoutMs: number
  /** As of a kind of work. */
  isExclusive?: boolean | undefined
  /** Called when it has passed. Exclusive work that ignores its signal leaves no other trace. */
  onTimeout(): void
}

/**
 * Runs work with a signal that is aborted with the reason of `signal`, or after the deadline with a TimeoutError.
 * @throws the TimeoutError if the work ended because of it, or went on for ten seconds in spite of it
 */
export async function runWithTimeout<T>(
  signal: AbortSignal,
  { timeoutMs, isExclusive, onTimeout }: Deadline,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const abortWork = () => controller.abort(signal.reason)
  if (signal.aborted) abortWork()
  // Not `AbortSignal.any`, which keeps each derived signal for as long as the first one lives.
  signal.addEventListener('abort', abortWork)
  let timeout: DOMException | undefined
  let grace: NodeJS.Timeout | undefined
  let timer: NodeJS.Timeout | undefined
  const givenUp = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      timeout = new DOMException(`took longer than ${timeoutMs / 1000} s`, 'TimeoutError')
      onTimeout()
      controller.abort(timeout)
      if (!isExclusive) grace = setTimeout(() => reject(timeout), GRACE_MS).unref()
    }, timeoutMs).unref()
  })
  try {
    const result = await Promise.race([work(controller.signal), givenUp])
    // Work that returned early because of its signal has not succeeded.
    if (timeout) throw timeout
    return result
  } finally {
    clearTimeout(timer)
    clearTimeout(grace)
    signal.removeEventListener('abort', abortWork)
  }
}
