/** Runs jobs that this process has claimed, and stores the results. */
import { newId } from '@resource-api/database'
import { scheduledJobs } from '@resource-api/database/internal'
import {
  type Claimed,
  createClaims,
  runWithTimeout,
  storeResult,
  toErrorText,
} from '@resource-api/http/internal'
import type { FastifyBaseLogger } from 'fastify'
import { createWorkRunner, type WorkOptions } from '../background/own-work.ts'
import { runChannel } from './channels.ts'
import type { Job } from './definition.ts'
import { type ClaimedJob, claimByName, giveBack, storeRun } from './job-store.ts'

export interface JobRunnerOptions extends WorkOptions {
  jobs: readonly Job[]
  /** The clock of schedules, in milliseconds since the epoch. */
  now(): number
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

/** How a run ended: `interrupted` by a shutdown, or because another process may have the job. */
export interface RunOutcome {
  result: 'succeeded' | 'failed' | 'interrupted'
  /** The reason, unless it has succeeded. */
  error?: unknown
}

type ClaimedRun = Claimed & ClaimedJob

export function createJobRunner(options: JobRunnerOptions) {
  const { database, log, jobs, now, leaseMs } = options
  const runWork = createWorkRunner(options)
  const claims = createClaims(scheduledJobs, database, leaseMs)
  const byName = new Map(jobs.map((job) => [job.name, job]))

  const tryRun = async (
    { timeoutMs, run }: Job,
    jobLog: FastifyBaseLogger,
    signal: AbortSignal,
  ): Promise<RunOutcome> => {
    try {
      await runWithTimeout(
        signal,
        timeoutMs,
        (runSignal) => runWork(jobLog, runSignal, run),
        () => jobLog.warn('the job has reached its timeout: its signal is aborted'),
      )
      return { result: 'succeeded' }
    } catch (error) {
      return signal.aborted
        ? { result: 'interrupted', error: signal.reason }
        : { result: 'failed', error: error ?? new Error('no reason') }
    }
  }

  const runClaimed = async (job: Job, claimed: ClaimedRun, signal: AbortSignal): Promise<RunOutcome> => {
    const { name, claim_id, next_run_ms: due } = claimed
    const jobLog = log.child({ job_name: name })
    const startedAt = performance.now()
    const outcome = await tryRun(job, jobLog, signal)
    const { result, error } = outcome
    if (result === 'interrupted') {
      jobLog.warn({ err: error }, 'the job was interrupted: it runs again')
      await storeResult(signal, jobLog, () => giveBack(database, claimed))
      return outcome
    }
    const durationMs = Math.round(performance.now() - startedAt)
    if (result === 'failed') jobLog.error({ err: error, duration_ms: durationMs }, 'the job failed')
    else jobLog.info({ duration_ms: durationMs }, 'the job succeeded')
    runChannel.publish({ name, result })
    const endedAt = now()
    // A run by hand before its time does not change it.
    const nextRun = due > endedAt ? due : job.schedule.getNext(due, endedAt)
    const stored = { name, claim_id, durationMs, endedAt, nextRun }
    const text = result === 'failed' ? toErrorText(error) : null
    if (!(await storeResult(signal, jobLog, () => storeRun(database, { ...stored, error: text }))))
      jobLog.warn('the result of the job could not be stored: it runs again')
    return outcome
  }

  return {
    leaseMs: claims.leaseMs,

    /** Claims jobs. @param isDue whether only those whose time has come */
    async claim(names: readonly string[], isDue: boolean): Promise<ClaimedRun[]> {
      const claimedAt = performance.now()
      const claim_id = newId()
      const values = { claimId: claim_id, leaseMs: claims.leaseMs, now: now(), isDue }
      const claimed = await claimByName(database, names, values)
      return claimed.map((each) => ({ ...each, claim_id, claimedAt }))
    },

    /** Runs a claimed job, and stores its result. */
    run(claimed: ClaimedRun, stopping: AbortSignal): Promise<RunOutcome> {
      const job = byName.get(claimed.name)
      if (!job) throw new Error(`There is no job "${claimed.name}"`)
      return claims.hold(claimed, stopping, (signal) => runClaimed(job, claimed, signal))
    },
  }
}
