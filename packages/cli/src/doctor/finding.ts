/** The result of one check of `doctor`. */
import { explainError } from '@resource-api/http/config'

type Status = 'ok' | 'warning' | 'failed'

export interface Finding {
  check: string
  status: Status
  /** A sentence that contains no secret. */
  message: string
  /** What to do, unless the status is ok. */
  advice?: string
}

export const ok = (check: string, message: string): Finding => ({ check, status: 'ok', message })

export const warn = (check: string, message: string, advice: string): Finding => ({
  check,
  status: 'warning',
  message,
  advice,
})

export const fail = (check: string, message: string, advice: string): Finding => ({
  check,
  status: 'failed',
  message,
  advice,
})

/** Formats an error and its causes in one line. */
export const formatError = (what: string, error: unknown): string =>
  explainError(what, error).replaceAll(/\n\s*/g, ': ')

/** Runs a check. An error is a failed check. */
export async function attempt(
  check: string,
  advice: string,
  work: () => Promise<Finding>,
  what = 'The check did not run',
): Promise<Finding> {
  try {
    return await work()
  } catch (error) {
    return fail(check, formatError(what, error), advice)
  }
}
