/**
 * Sends deliveries: claims due ones, makes their attempts, and stores the results. One cycle of these statements runs at a
 * time; attempts go on during it, and the results of those that end are stored by the next cycle.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../../drizzle/client/types.ts'
import type { Outcome } from './attempt.ts'
import { publishAttempt, publishDelivery } from './channels.ts'
import {
  type ClaimedDelivery,
  claim,
  type DeliveryState,
  type EndpointState,
  readDeliveryState,
  release,
  saveEndpoints,
  saveResults,
} from './delivery-store.ts'
import { createEndpointQueues } from './endpoint-queues.ts'

/** How often an idle process looks for due deliveries. */
const POLL_INTERVAL_MS = 500
/** Time in which results are collected before they are stored. */
const SAVE_DELAY_MS = 10
/** How old the state may get that metrics show, while deliveries are sent without reading it. */
const MAX_STATE_AGE_MS = 5_000
/** Pause after a failure of the database. */
const RETRY_DELAY_MS = 1_000
/** A claim lasts this much longer than an attempt: the time that it may wait, and that storing the result takes. */
const LEASE_MARGIN_MS = 30_000
/** Time to store the result of an attempt. */
const SAVE_MARGIN_MS = 10_000
const MAX_FAILING_MS = 5 * 24 * 3600 * 1000

interface DispatcherOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  /** Attempts at the same time. */
  concurrency: number
  /** Milliseconds that an attempt may take. */
  timeoutMs: number
  attempt(delivery: ClaimedDelivery): Promise<Outcome>
  /** Disables an endpoint, for a reason that its owner reads. */
  disable(endpointId: string, reason: string): Promise<void>
}

const GONE = 'The endpoint answered 410 Gone'
const FAILING = 'All attempts failed for 5 days'

/** Returns why the endpoint must be disabled after a failed attempt; undefined if it need not be. */
function findDisablingReason({ delivery, isSent, isGone, result }: Outcome): string | undefined {
  if (isGone) return GONE
  const { failing_since: since } = delivery
  const isFailing = isSent && result.status !== 'succeeded' && since !== null
  return isFailing && Date.now() - Date.parse(since) >= MAX_FAILING_MS ? FAILING : undefined
}

/** Returns what the outcomes say about the endpoints: the latest of each counts. */
function summarize(outcomes: readonly Outcome[]): EndpointState[] {
  const states = new Map<string, EndpointState>()
  for (const { delivery, isSent, result } of outcomes) {
    if (!isSent) continue
    const { endpoint_id: id } = delivery
    const isFailing = result.status !== 'succeeded'
    states.set(id, { id, isFailing, hasDelivered: !isFailing || states.get(id)?.hasDelivered === true })
  }
  return [...states.values()]
}

export function createDispatcher(options: DispatcherOptions) {
  const { database, log, concurrency, timeoutMs, attempt, disable } = options
  const leaseMs = timeoutMs + LEASE_MARGIN_MS
  const queues = createEndpointQueues(concurrency)
  let outcomes: Outcome[] = []
  /** Claims to give up. */
  let unwanted: ClaimedDelivery[] = []
  const attempts = new Set<Promise<void>>()
  /** Whether deliveries may be due: some were created, or an attempt has ended. Otherwise a cheap query finds out. */
  let isDue = true
  let isStopped = false
  let hasFailed = false
  let state: DeliveryState = { due_in_ms: null, disabled: 0 }
  /** Time of `performance.now()`. */
  let stateReadAt = Number.NEGATIVE_INFINITY
  let isRunning = false
  let running: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  /** Time of `performance.now()` when the timer ends. */
  let timerEnd = 0

  const finish = (outcome: Outcome) => {
    const { delivery, isSent, result } = outcome
    const duration = isSent ? (result.duration_ms ?? 0) : undefined
    const isSuccess = result.status === 'succeeded'
    unwanted.push(...queues.finish(delivery.endpoint_id, isSuccess, duration))
    outcomes.push(outcome)
    if (isSent) publishAttempt(isSuccess ? 'succeeded' : 'failed')
    if (result.status !== 'pending') publishDelivery(result.status)
    // A slot of the endpoint is free.
    isDue = true
    startAttempts()
    schedule(SAVE_DELAY_MS)
  }

  function startAttempts(): void {
    for (const { delivery, claimedAt } of queues.take()) {
      const isLate = performance.now() - claimedAt + timeoutMs + SAVE_MARGIN_MS > leaseMs
      if (isLate || isStopped) {
        unwanted.push(delivery, ...queues.finish(delivery.endpoint_id, false, undefined))
        schedule(SAVE_DELAY_MS)
        continue
      }
      const made = attempt(delivery).then(finish)
      attempts.add(made)
      void made.finally(() => attempts.delete(made))
    }
  }

  /** Stores what has ended. After a failure, the next cycle stores the results. */
  const save = async () => {
    const [ended, given] = [outcomes, unwanted]
    outcomes = []
    unwanted = []
    try {
      await saveResults(
        database,
        ended.map(({ result }) => result),
      )
    } catch (error) {
      outcomes = [...ended, ...outcomes]
      throw error
    } finally {
      // Not repeated after a failure: another process may have claimed the same attempt since. The lease ends anyway.
      await release(database, given)
    }
    await saveEndpoints(database, summarize(ended))
    for (const outcome of ended) {
      const reason = findDisablingReason(outcome)
      if (reason !== undefined) await disable(outcome.delivery.endpoint_id, reason)
    }
  }

  /** Claims deliveries, and begins their attempts. */
  const claimDue = async () => {
    const limit = queues.getLimit()
    if (limit <= 0) return
    const claimedAt = performance.now()
    const claimed = await claim(database, {
      allowances: queues.getAllowances(),
      defaultAllowance: queues.defaultAllowance,
      limit,
      leaseMs,
    })
    for (const delivery of claimed) queues.add(delivery, claimedAt)
    startAttempts()
  }

  const readState = async () => {
    state = await readDeliveryState(database)
    stateReadAt = performance.now()
  }

  /** @returns milliseconds until the next cycle, unless an attempt ends or deliveries are created before */
  const cycle = async (): Promise<number> => {
    if (outcomes.length + unwanted.length > 0) await save()
    if (isStopped) return POLL_INTERVAL_MS
    queues.forgetIdle()
    const isExpected = isDue
    isDue = false
    if (!isExpected || performance.now() - stateReadAt >= MAX_STATE_AGE_MS) await readState()
    const dueIn = isExpected ? 0 : state.due_in_ms
    if (dueIn === null || dueIn > 0) return Math.min(dueIn ?? POLL_INTERVAL_MS, POLL_INTERVAL_MS)
    await claimDue()
    return POLL_INTERVAL_MS
  }

  const cycleSafely = async (): Promise<number> => {
    try {
      const delay = await cycle()
      if (hasFailed) log.info('webhooks are sent again')
      hasFailed = false
      return delay
    } catch (err) {
      if (!hasFailed) log.warn({ err }, 'webhook deliveries cannot be read or stored')
      hasFailed = true
      return RETRY_DELAY_MS
    }
  }

  async function run() {
    isRunning = true
    const delay = await cycleSafely()
    isRunning = false
    // Deliveries were created, or attempts ended, during the cycle.
    schedule(isDue && !hasFailed ? SAVE_DELAY_MS : delay)
  }

  /** Runs the next cycle after a delay, or earlier if it is scheduled earlier. */
  function schedule(delay: number): void {
    const end = performance.now() + delay
    // A cycle that runs schedules the next one.
    if (isStopped || isRunning || (timer && timerEnd <= end) || (hasFailed && timer)) return
    clearTimeout(timer)
    timerEnd = end
    timer = setTimeout(() => {
      timer = undefined
      running = run()
    }, delay).unref()
  }

  return {
    start: () => schedule(0),

    /** Looks for due deliveries soon: some were created. */
    wake() {
      isDue = true
      schedule(0)
    },

    /** Returns for how many seconds the oldest due delivery has waited, as last read; -1 after a failure. */
    getOverdueAge: () => (hasFailed ? -1 : Math.max(0, -(state.due_in_ms ?? 0)) / 1000),

    /** Returns how many endpoints the service has disabled, as last read; -1 after a failure. */
    getDisabledCount: () => (hasFailed ? -1 : state.disabled),

    /** Claims no more, and waits for the statements that run. Attempts go on. */
    async pause() {
      isStopped = true
      clearTimeout(timer)
      await running
    },

    /** Waits for the attempts that run, stores their results, and gives up the other claims. */
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
      unwanted.push(...queues.clear())
      await Promise.all(attempts)
      await save()
    },
  }
}
