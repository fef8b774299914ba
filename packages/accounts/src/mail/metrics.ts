/** The metrics of mails. */
import type { AddMetric } from '@resource-api/http/internal'
import { getWaitSeconds } from '@resource-api/work'
import type { FastifyInstance } from 'fastify'
import { MAIL } from './mail-store.ts'

export function addMailMetrics(add: AddMetric, work: FastifyInstance['work']): void {
  add(
    'mail_queue',
    'Mails by state: waiting, failed (after the last attempt, for 7 days); -1 if the database does not answer.',
    () => {
      const { waiting, failed } = work.getState(MAIL) ?? { waiting: -1, failed: -1 }
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
    () => getWaitSeconds(work.getState(MAIL)),
  )
}
