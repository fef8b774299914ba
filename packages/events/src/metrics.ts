/** The metrics of events, webhooks, jobs and consumers. */
import type { AddMetric } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'

export function addEventMetrics(
  { feed, events, webhooks, jobs, consumers }: FastifyInstance,
  add: AddMetric,
): void {
  if (jobs) {
    type JobState = NonNullable<ReturnType<typeof jobs.getStates>>[number]
    /** Without a value while the database does not answer. */
    const addJob = (name: string, help: string, read: (state: JobState) => number | null) =>
      add(
        name,
        help,
        () => (jobs.getStates() ?? []).map((state) => [state.name, read(state) ?? 0] as const),
        { label: 'name' },
      )
    addJob('job_failures', 'Runs of a job that failed since its last success.', ({ failures }) => failures)
    addJob(
      'job_last_duration_seconds',
      'How long the latest run of a job took; 0 before the first.',
      (state) => (state.last_duration_ms === null ? null : state.last_duration_ms / 1000),
    )
    addJob(
      'job_last_success_timestamp_seconds',
      'When the latest successful run of a job ended; 0 before the first.',
      (state) => (state.last_success_ms === null ? null : state.last_success_ms / 1000),
    )
    addJob(
      'job_next_run_timestamp_seconds',
      'When a job is due; in the past while it runs.',
      ({ next_run_ms }) => next_run_ms / 1000,
    )
  }

  if (consumers) {
    type ConsumerState = NonNullable<ReturnType<typeof consumers.getStates>>[number]
    const addConsumer = (name: string, help: string, read: (state: ConsumerState) => number) =>
      add(
        name,
        help,
        () => (consumers.getStates() ?? []).map((state) => [state.name, read(state)] as const),
        { label: 'name' },
      )
    addConsumer(
      'consumer_failures',
      'Attempts to handle the event at which a consumer is that failed.',
      ({ failures }) => failures,
    )
    addConsumer(
      'consumer_lag_events',
      'Events of all types between the cursor of a consumer and the end of the feed.',
      ({ last_position, position }) => Math.max(0, last_position - position),
    )
  }

  if (!feed) return
  add('event_streams', 'Event streams of this process.', () => events.streams.size)
  add(
    'event_pending_age_seconds',
    'Age of the oldest event without a position; 0 if there is none, -1 if the database does not answer.',
    events.getPendingAge,
  )
  add(
    'webhook_longest_wait_seconds',
    'How long an endpoint that is neither slow nor failing has waited for a due delivery to be sent; 0 if none waits, -1 if the database does not answer.',
    webhooks.getLongestWait,
  )
  add(
    'webhook_endpoints_disabled',
    'Webhook endpoints that the service has disabled; -1 if the database does not answer.',
    () => webhooks.getCounts()?.disabled ?? -1,
  )
  add(
    'webhook_owners',
    'Users who have enabled webhook endpoints, by state: all, failing (of one at least, the latest attempt failed); -1 if the database does not answer.',
    () => [
      ['all', webhooks.getCounts()?.owners ?? -1],
      ['failing', webhooks.getCounts()?.failing_owners ?? -1],
    ],
    { label: 'state' },
  )
}
