/** The statements of jobs: they are registered, claimed and ended. */
import { type Connection, isAnyOf, prepare } from '@resource-api/database'
import { scheduledJobs as jobs, toNames } from '@resource-api/database/internal'
import { clearClaim, isClaimed, isFree, leaseRemainder, setClaim } from '@resource-api/http/internal'
import { sql } from 'drizzle-orm'
import type { Job } from './definition.ts'

const epochMs = (column: typeof jobs.next_run_at | typeof jobs.last_success_at) =>
  sql`(extract(epoch from ${column}) * 1000)::float8`

/** A job as it is stored. Times are epoch milliseconds. */
export type JobState = {
  name: string
  next_run_ms: number
  /** The milliseconds until its claim ends; null or negative without a claim. */
  leased_for_ms: number | null
  failures: number
  last_success_ms: number | null
  last_duration_ms: number | null
}

const selectStates = prepare((db) =>
  db.execute<JobState>(sql`select ${jobs.name}, ${epochMs(jobs.next_run_at)} as next_run_ms,
      ${leaseRemainder(jobs)} as leased_for_ms, ${jobs.failures}, ${jobs.last_duration_ms},
      ${epochMs(jobs.last_success_at)} as last_success_ms
    from ${jobs} where ${isAnyOf(jobs.name, sql.placeholder('names'))}`),
)

export const readStates = (connection: Connection, listed: readonly Job[]): Promise<JobState[]> =>
  selectStates(connection, { names: listed.map(({ name }) => name) })

const toTime = (epoch: number) => new Date(epoch).toISOString()

/** In the order of the names, so that processes that start together wait for each other, and not in a circle. */
const insertJobs = prepare((db) =>
  db.execute(sql`insert into ${jobs} (${toNames(jobs.name, jobs.schedule, jobs.next_run_at)})
    select name, schedule, next_run_at
    from jsonb_to_recordset(${sql.placeholder('rows')}::jsonb) as r (name text, schedule text, next_run_at timestamptz)
    order by name
    on conflict (${toNames(jobs.name)}) do update
      set ${toNames(jobs.schedule)} = excluded.schedule, ${toNames(jobs.next_run_at)} = excluded.next_run_at
      where ${jobs.schedule} <> excluded.schedule`),
)

/** Stores the jobs that are new, and the schedules that have changed. */
export async function register(connection: Connection, listed: readonly Job[], now: number): Promise<void> {
  const rows = listed.map(({ name, schedule }) => ({
    name,
    schedule: schedule.text,
    next_run_at: toTime(schedule.getNext(now, now)),
  }))
  await insertJobs(connection, { rows: JSON.stringify(rows) })
}

export type ClaimedJob = { name: string; next_run_ms: number }

const claimJobs = prepare((db) =>
  db.execute<ClaimedJob>(sql`update ${jobs}
    set ${setClaim(jobs)}, ${toNames(jobs.last_started_at)} = ${sql.placeholder('now')}::timestamptz
    where ${isAnyOf(jobs.name, sql.placeholder('names'))} and ${isFree(jobs)}
      and ${jobs.next_run_at} <= ${sql.placeholder('dueUntil')}::timestamptz
    returning ${jobs.name}, ${epochMs(jobs.next_run_at)} as next_run_ms`),
)

/**
 * Claims the jobs among the names that no process runs.
 * @param isDue whether only those whose time has come
 */
export const claimByName = (
  connection: Connection,
  names: readonly string[],
  { claimId, leaseMs, now, isDue }: { claimId: string; leaseMs: number; now: number; isDue: boolean },
): Promise<ClaimedJob[]> =>
  claimJobs(connection, {
    names,
    claimId,
    leaseMs,
    now: toTime(now),
    dueUntil: isDue ? toTime(now) : 'infinity',
  })

export interface JobResult {
  name: string
  claim_id: string
  /** Null if it has succeeded. */
  error: string | null
  durationMs: number
  /** Epoch milliseconds. */
  endedAt: number
  nextRun: number
}

const endRun = prepare((db) => {
  const error = sql`${sql.placeholder('error')}::text`
  const endedAt = sql`${sql.placeholder('endedAt')}::timestamptz`
  return db.execute(sql`update ${jobs} set ${clearClaim(jobs)}, ${toNames(jobs.error)} = ${error},
      ${toNames(jobs.failures)} = case when ${error} is null then 0 else ${jobs.failures} + 1 end,
      ${toNames(jobs.last_result)} = case when ${error} is null then 'succeeded' else 'failed' end,
      ${toNames(jobs.last_success_at)} = case when ${error} is null then ${endedAt} else ${jobs.last_success_at} end,
      ${toNames(jobs.last_duration_ms)} = ${sql.placeholder('durationMs')}::bigint,
      ${toNames(jobs.next_run_at)} = ${sql.placeholder('nextRun')}::timestamptz
    where ${isClaimed(jobs)} returning ${jobs.name}`)
})

/** Stores the result of a run, and gives the claim back. @returns no row if another process has claimed the job */
export const storeRun = (connection: Connection, result: JobResult): Promise<unknown[]> =>
  endRun(connection, {
    name: result.name,
    claimId: result.claim_id,
    error: result.error,
    durationMs: result.durationMs,
    endedAt: toTime(result.endedAt),
    nextRun: toTime(result.nextRun),
  })

const giveBackClaim = prepare((db) =>
  db.execute(sql`update ${jobs} set ${clearClaim(jobs)} where ${isClaimed(jobs)} returning ${jobs.name}`),
)

/** Gives the claim of an interrupted run back: the job stays due. */
export const giveBack = (
  connection: Connection,
  { name, claim_id: claimId }: { name: string; claim_id: string },
): Promise<unknown[]> => giveBackClaim(connection, { name, claimId })
