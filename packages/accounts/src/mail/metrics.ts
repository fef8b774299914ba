/** The metrics of mails. */
import type { AddMetric } from '@resource-api/http/internal'
import type { MailState } from './mail-store.ts'

/** @param getState returns the state of all mails as last read; undefined while the database does not answer */
export function addMailMetrics(add: AddMetric, getState: () => MailState | undefined): void {
  add(
    'mail_queue',
    'Mails by state: waiting, failed (after the last attempt, for 7 days); -1 if the database does not answer.',
    () => {
      const { waiting, failed } = getState() ?? { waiting: -1, failed: -1 }
      return [
        ['waiting', waiting],
        ['failed', failed],
      ]
    },
    { label: 'state' },
  )
  add(
    'mail_longest_wait_seconds',
    'How long the oldest mail has waited to be sent; 0 if none waits, -1 if the database does not answer.',
    () => {
      const state = getState()
      if (!state) return -1
      return state.oldest_ms === null ? 0 : (Date.now() - state.oldest_ms) / 1000
    },
  )
}
