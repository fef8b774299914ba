/** When a job runs: in intervals, or by a cron expression in UTC. */
import { type Duration, toMilliseconds } from '@resource-api/database/values'
import { Cron } from 'croner'

export interface Schedule {
  /** As it is stored and printed: `every 1h`, `cron 0 3 * * *`. */
  text: string
  /**
   * Returns the first time of the schedule after both times, all in epoch milliseconds. Intervals go on from `due`, so that
   * a late run does not move those after it.
   */
  getNext(due: number, now: number): number
}

/** @throws Error if the expression is invalid, or names no time */
function parseCron(expression: string): Schedule {
  const fields = expression.trim().split(/\s+/)
  // As in crontab(5): without the seconds and years that the parser also reads.
  if (fields.length !== 5)
    throw new Error(`"${expression}" has not 5 parts: minute, hour, day of the month, month, day of the week`)
  const [, , dayOfMonth, , dayOfWeek] = fields
  // Two restricted days are alternatives. One that begins with a star, such as `*/2`, is not restricted: both have to match.
  const domAndDow = [dayOfMonth, dayOfWeek].some((day) => day?.startsWith('*') || day?.startsWith('?'))
  const text = fields.join(' ')
  const cron = new Cron(text, { timezone: 'UTC', paused: true, domAndDow })
  const getNext: Schedule['getNext'] = (due, now) => {
    const next = cron.nextRun(new Date(Math.max(due, now)))
    if (!next) throw new Error(`"${expression}" names no time`)
    return next.getTime()
  }
  getNext(0, Date.now())
  return { text: `cron ${text}`, getNext }
}

function parseInterval(every: string): Schedule {
  const interval = toMilliseconds(every)
  return {
    text: `every ${every}`,
    getNext: (due, now) => due + interval * (Math.max(0, Math.floor((now - due) / interval)) + 1),
  }
}

/** Returns the schedule with a text. */
export const parseScheduleText = (text: string): Schedule =>
  text.startsWith('cron ')
    ? parseCron(text.slice('cron '.length))
    : parseInterval(text.slice('every '.length))

/** @throws Error with the mistake */
export function parseSchedule({ every, cron }: { every?: Duration; cron?: string | undefined }): Schedule {
  if (every !== undefined) return parseInterval(every)
  if (cron === undefined) throw new Error('"every" or "cron" is missing')
  return parseCron(cron)
}
