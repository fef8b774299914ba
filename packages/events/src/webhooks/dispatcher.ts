/**
 * Sends deliveries: claims due ones, makes their attempts, and stores the results. One cycle of these statements runs at a
 * time; attempts go on during it, and the results of those that end are stored by the next cycle.
 */

import type { Database } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/internal'
import type { FastifyBaseLogger } from 'fastify'
import { POLL_INTERVAL_MS } from '../events/feed.ts'
import { giveBack } from './attempt.ts'
import { attemptChannel, deliveryChannel } from './channels.ts'
import { type ClaimedDelivery, claim, type Outcome, saveOutcomes } from './delivery-store.ts'
import { readDue, saveEndpoints } from './endpoint-store.ts'
import { createPlaces } from './places.ts'

/** Time in which results are collected before they are stored, and new deliveries before they are read. */
const SAVE_DELAY_MS = 5
/** Pause after a failure of the database. */
const RETRY_DELAY_MS = 1_000
/** A claim lasts this much longer than an attempt: the time of the quick ones before it, and in which its result is stored. */
const LEASE_MARGIN_MS = 30_000

interface DispatcherOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  /** Attempts at the same time. */
  concurrency: number
  /** Milliseconds that an attempt may take. */
  timeoutMs: number
  /** Returns the milliseconds between polls for due deliveries of which the process is not notified, while there are none. */
  getPollInterval(): number
  attempt(delivery: ClaimedDelivery): Promise<Outcome>
  /** Disables the endpoint if the outcome is a reason for that. */
  disableEndpoint(outcome: Outcome): Promise<void>
}

export function createDispatcher(options: DispatcherOptions) {
  const { database, log, concurrency, timeoutMs, getPollInterval, attempt, disableEndpoint } = options
  const places = createPlaces(concurrency)
  let outcomes: Outcome[] = []
  const attempts = new Set<Promise<void>>()
  /** Whether endpoints must be read again: deliveries were created. */
  let isDue = true
  /** When they must be read again for deliveries that nothing announces: a time of `performance.now()`. */
  let nextRead = 0
  const readSoon = () => {
    nextRead = Math.min(nextRead, performance.now() + POLL_INTERVAL_MS)
    task.wake()
  }

  /** @returns whether the next attempt may follow in the same place */
  const finish = (outcome: Outcome): boolean => {
    const { delivery, status, sent } = outcome
    outcomes.push(outcome)
    task.wake()
    if (status !== 'pending') deliveryChannel.publish({ result: status })
    if (!sent) return true
    const isSuccess = status === 'succeeded'
    attemptChannel.publish({ result: isSuccess ? 'succeeded' : 'failed' })
    return places.record(delivery.endpoint_id, isSuccess, sent.durationMs)
  }

  /** Sends deliveries of one endpoint in one place, and gives back those that must not follow there. */
  const sendInTurn = async (deliveries: readonly ClaimedDelivery[], endpointId: string) => {
    let isNext = true
    for (const delivery of deliveries) {
      if (isNext) isNext = finish(await attempt(delivery)) && !task.isStopped
      else outcomes.push(giveBack(delivery))
    }
    places.release(endpointId)
    readSoon()
  }

  /** Stores what has ended. After a failure, the next cycle stores the results. */
  const save = async () => {
    const ended = outcomes
    outcomes = []
    try {
      await saveOutcomes(database, ended)
    } catch (error) {
      // An attempt that was not sent is not counted: another process may have claimed the same number since.
      outcomes = [...ended.filter(({ sent }) => sent), ...outcomes]
      throw error
    }
    await saveEndpoints(database, ended)
    for (const outcome of ended) await disableEndpoint(outcome)
  }

  /** Finds out which endpoints have due deliveries, and when others will have some. */
  const read = async () => {
    isDue = false
    const interval = getPollInterval()
    const due = await readDue(database, { withinMs: interval })
    places.setDue(due)
    // An endpoint with due deliveries may have to wait for its turn.
    const delays = due.map(({ due_in_ms }) => (due_in_ms > 0 ? due_in_ms : POLL_INTERVAL_MS))
    // A commit since then has made the interval shorter.
    nextRead = performance.now() + Math.min(interval, getPollInterval(), ...delays)
  }

  /** Claims deliveries, and begins their attempts. No more are claimed than are sent in these turns. */
  const claimDue = async () => {
    const reserved = places.reserve()
    const wanted = Object.entries(reserved).map(([id, turns]) => [id, turns.count * turns.length] as const)
    if (wanted.length === 0) return
    let claimed: ClaimedDelivery[] = []
    let assigned: ClaimedDelivery[][] = []
    try {
      claimed = await claim(database, Object.fromEntries(wanted), timeoutMs + LEASE_MARGIN_MS)
    } finally {
      assigned = places.assign(reserved, claimed)
    }
    for (const deliveries of assigned) {
      const made = sendInTurn(deliveries, deliveries[0]?.endpoint_id ?? '')
      attempts.add(made)
      void made.finally(() => attempts.delete(made))
    }
  }

  /** Reads what is due if it must, and sends it. */
  const send = async () => {
    if (isDue || performance.now() >= nextRead) await read()
    if (!task.isStopped) await claimDue()
  }

  const cycle = async () => {
    // At the same time, since a claim needs only the places of the attempts that have ended.
    const [sent, saved] = await Promise.allSettled([send(), outcomes.length > 0 ? save() : undefined])
    if (saved.status === 'rejected') throw saved.reason
    if (sent.status === 'rejected') throw sent.reason
  }

  const task: BackgroundTask = new BackgroundTask({
    work: cycle,
    // Deliveries were created, or attempts have ended.
    getDelay: () =>
      isDue || outcomes.length > 0 ? SAVE_DELAY_MS : Math.max(0, nextRead - performance.now()),
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, 'webhook deliveries cannot be read or stored'),
    onRecovery: () => log.info('webhooks are sent again'),
  })

  return {
    start: () => task.start(),

    /** Looks for due deliveries soon: some were created. */
    wake() {
      isDue = true
      task.wake()
    },

    /** Looks for due deliveries within half a second: some may have been created. */
    readSoon,

    /** Returns for how many seconds an endpoint has waited that is neither slow nor failing; -1 after a failure. */
    getLongestWait: () => (task.hasFailed ? -1 : places.getLongestWait() / 1000),

    /** Claims no more, and waits for the statements that run. Attempts go on. */
    pause: () => task.stop(),

    /** Waits for the attempts that run, and stores their results. */
    async stop() {
      await task.stop()
      await Promise.all(attempts)
      await save()
    },
  }
}
