/** What a job is: its name, its schedule and its work. */
import { type Duration, toMilliseconds } from '@resource-api/database/values'
import { checkName, type OwnContext } from '../background/own-work.ts'
import { parseSchedule, type Schedule } from './schedule.ts'

interface JobCommon {
  /** Lowercase words with hyphens, unique among the jobs. */
  name: string
  /** After which time a run has failed. Default: 10 minutes. */
  timeout?: Duration
  /** @throws Error if the run has failed, or ended early because of the signal */
  run(context: OwnContext): Promise<unknown>
}

type JobDefinition = JobCommon &
  (
    | {
        /** The time between the starts of two runs. The first one begins this long after the registration. */
        every: Duration
        cron?: never
      }
    | {
        /** Minute, hour, day of the month, month, day of the week, in UTC: `0 3 * * *`. */
        cron: string
        every?: never
      }
  )

export interface Job {
  name: string
  schedule: Schedule
  timeoutMs: number
  run(context: OwnContext): Promise<unknown>
}

/** Defines work that is repeated at its times, by one process at a time. @throws Error with the mistake */
export function defineJob({ name, every, cron, timeout = '10m', run }: JobDefinition): Job {
  checkName('Job', name)
  try {
    return {
      name,
      schedule: parseSchedule(every === undefined ? { cron } : { every }),
      timeoutMs: toMilliseconds(timeout),
      run,
    }
  } catch (cause) {
    throw new Error(`Job "${name}": ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
}
