/** Jobs as kinds of work: each has one row, whose payload says what its latest run was. */
import { createSlots, toErrorText, type WorkKind, type WorkResult } from '@resource-api/work'
import { createWorkRunner, type WorkOptions } from '../background/own-work.ts'
import { runChannel } from './channels.ts'
import type { Job } from './definition.ts'
import { parseScheduleText } from './schedule.ts'

/** What a job has as `payload`. Times are in RFC 3339. A type, so that it is a record. */
export type JobState = {
  /** The schedule by which `next_run_at` was computed. */
  schedule: string
  next_run_at: string
  /** The failures since the last success. */
  failures: number
  last_started_at?: string
  last_duration_ms?: number
  last_result?: 'succeeded' | 'failed'
  last_success_at?: string
}

export interface JobOptions extends WorkOptions {
  /** The clock of schedules, in milliseconds since the epoch. */
  now(): number
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
  /** Whether the job is run whether it is due or not. */
  isByHand?: boolean
  /** Called when a run has ended that was not interrupted. */
  onEnd?(outcome: { result: 'succeeded' | 'failed'; error?: unknown }): void
}

export const toJobKind = (name: string): string => `job:${name}`

export function createJobKind(
  { name, schedule, timeoutMs, run }: Job,
  { now, leaseMs, isByHand, onEnd, ...options }: JobOptions,
): WorkKind {
  const runWork = createWorkRunner(options)
  const log = options.log.child({ job_name: name })
  /** Whether the row has had this schedule. Another one that it has then is that of a process which was started later. */
  let isStored = false
  /** Of the run, of which there is one at a time. */
  let startedAt = now()
  const toTime = (epoch: number) => new Date(epoch).toISOString()

  /** Returns the result of a run: a run by hand before its time does not change the next one. */
  const end = (
    payload: Record<string, unknown>,
    durationMs: number,
    failure?: { error: unknown },
  ): WorkResult => {
    // The row was written by `register` or by this function.
    const state = payload as JobState
    const endedAt = now()
    const due = Date.parse(state.next_run_at)
    // A process that was started later may have other code. It cannot change the row while an attempt is made.
    const { getNext } = state.schedule === schedule.text ? schedule : parseScheduleText(state.schedule)
    // After `due`, whatever this clock says: by that of the database, the time has come.
    const nextRun = isByHand && due > endedAt ? due : getNext(due, Math.max(due, endedAt))
    const result = failure ? 'failed' : 'succeeded'
    runChannel.publish({ name, result })
    onEnd?.({ result, ...failure })
    const next: JobState = {
      ...state,
      next_run_at: toTime(nextRun),
      failures: failure ? state.failures + 1 : 0,
      last_started_at: toTime(startedAt),
      last_duration_ms: durationMs,
      last_result: result,
      ...(!failure && { last_success_at: toTime(endedAt) }),
    }
    const error = failure ? toErrorText(failure.error) : null
    return { status: 'pending', dueAt: nextRun, error, payload: next, isUncounted: true }
  }

  return {
    name: toJobKind(name),
    slots: createSlots(1),
    ...{ timeoutMs, leaseMs, now, isExclusive: true },
    async register() {
      const nextRun = schedule.getNext(now(), now())
      const payload: JobState = { schedule: schedule.text, next_run_at: toTime(nextRun), failures: 0 }
      const row = { kind: toJobKind(name), key: name, payload, dueAt: nextRun, replacesIf: 'schedule' }
      return options.queue.enqueue(options.database, row)
    },
    isRegistered({ schedule: stored }) {
      isStored ||= stored === schedule.text
      return isStored
    },
    async run({ payload }, { signal }) {
      const begun = performance.now()
      startedAt = now()
      await runWork(log, signal, run)
      const durationMs = Math.round(performance.now() - begun)
      log.info({ duration_ms: durationMs }, 'the job succeeded')
      return end(payload, durationMs)
    },
    fail({ payload }, error, durationMs) {
      log.error({ err: error, duration_ms: durationMs }, 'the job failed')
      return end(payload, durationMs, { error: error ?? new Error('no reason') })
    },
  }
}
