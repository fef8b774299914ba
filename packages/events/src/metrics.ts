/** The metrics of events, webhooks, jobs and consumers. */
import type { AddMetric } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'

export function addEventMetrics(
  { feed, events, webhooks, jobs, consumers }: FastifyInstance,
  add: AddMetric,
): void {
  /** Adds a metric with a value for each name; without any while the database does not answer. */
  const addNamed = <State>(
    getStates: () => [string, State][],
    name: string,
    help: string,
    read: (state: State) => number,
  ) =>
    add(name, help, () => getStates().map(([each, state]) => [each, read(state)] as const), { label: 'name' })
  const toSeconds = (time: string | undefined) => (time === undefined ? 0 : Date.parse(time) / 1000)

  if (jobs) {
    const { getStates } = jobs
    addNamed(
      getStates,
      'job_failures',
      'Runs of a job that failed since its last success.',
      (job) => job.failures,
    )
    addNamed(
      getStates,
      'job_last_duration_seconds',
      'How long the latest run of a job took; 0 before the first.',
      (job) => (job.last_duration_ms ?? 0) / 1000,
    )
    addNamed(
      getStates,
      'job_last_success_timestamp_seconds',
      'When the latest successful run of a job ended; 0 before the first.',
      (job) => toSeconds(job.last_success_at),
    )
    addNamed(
      getStates,
      'job_next_run_timestamp_seconds',
      'When a job is due; in the past while it runs.',
      (job) => toSeconds(job.next_run_at),
    )
  }

  if (consumers) {
    const { getStates } = consumers
    addNamed(
      getStates,
      'consumer_failures',
      'Attempts to handle the event at which a consumer is that failed.',
      ({ failures }) => failures,
    )
    addNamed(
      getStates,
      'consumer_lag_events',
      'Events of all types between the cursor of a consumer and the end of the feed.',
      ({ last_position, position }) => Math.max(0, last_position - position),
    )
  }

  if (!feed) return
  add('event_streams', 'Event streams of this process.', () => events.streams.size, {
    aggregator: 'sum',
  })
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
