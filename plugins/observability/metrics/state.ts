/** Metrics that are read at each scrape: client sockets, database connections, replicas, mails, events, webhooks, jobs, consumers. */
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'

/** As for `/readyz`. */
const PING_TIMEOUT_MS = 1_000

/** Values by the value of the label, such as the number of a replica. */
type Values = readonly (readonly [label: string | number, value: number])[]

export function addStateMetrics(
  { server, database, feed, events, webhooks, jobs, consumers, mail }: FastifyInstance,
  registry: Registry,
) {
  const { replicas } = database

  const add = (
    name: string,
    help: string,
    read: () => number | Promise<number> | Values,
    { label, Metric = Gauge }: { label?: string; Metric?: typeof Gauge | typeof Counter } = {},
  ) =>
    new Metric({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      async collect() {
        const result = await read()
        this.reset()
        if (typeof result === 'number') this.inc(result)
        else for (const [value, number] of result) this.inc({ [String(label)]: value }, number)
      },
    })

  add(
    'http_connections',
    'Open client connections.',
    () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count ?? 0))),
  )
  let dropped = 0
  server.on('drop', () => dropped++)
  add(
    'http_connections_dropped_total',
    'Client connections closed on arrival because MAX_CONNECTIONS was reached.',
    () => dropped,
    { Metric: Counter },
  )
  add('database_pool_size', 'Size of the connection pool (POOL_SIZE).', () => database.getLoad().size)
  add('database_pool_in_use', 'Connections in use.', () => database.getLoad().used)
  add('database_pool_waiting', 'Requests waiting for a connection.', () => database.getLoad().waiting)
  add(
    'database_up',
    'Whether the database answers within a second (1) or not (0), checked at each scrape.',
    () =>
      database.ping(PING_TIMEOUT_MS).then(
        () => 1,
        () => 0,
      ),
  )

  if (replicas) {
    const { getStates, counts } = replicas
    type ReplicaState = ReturnType<typeof getStates>[number]
    // The label is the position in DATABASE_REPLICA_URLS, so that metrics contain no addresses.
    const addReplica = (name: string, help: string, read: (state: ReplicaState) => number) =>
      add(name, help, () => getStates().map((state, i) => [i + 1, read(state)] as const), {
        label: 'replica',
      })
    addReplica('database_replica_up', 'Whether the replica serves reads (1) or not (0).', ({ standing }) =>
      Number(standing === 'up'),
    )
    addReplica(
      'database_replica_lag_seconds',
      'Time since the replica was last known to be up to date; -1 if unknown.',
      ({ lag }) => (Number.isFinite(lag) ? lag / 1000 : -1),
    )
    addReplica('database_replica_pool_in_use', 'Connections to the replica in use.', ({ load }) => load.used)
    add(
      'database_reads_total',
      'Reading requests, by server: a replica, or the primary and the reason for it.',
      () => [
        ['replica', counts.replica],
        ['primary_after_write', counts.afterWrite],
        ['primary_no_replica', counts.noReplica],
      ],
      { label: 'from', Metric: Counter },
    )
    add(
      'database_replica_fallbacks_total',
      'Statements that failed on a replica and were run on the primary.',
      () => counts.failed,
      { Metric: Counter },
    )
  }

  if (mail) {
    add(
      'mail_queue',
      'Mails by state: waiting, failed (after the last attempt, for 7 days); -1 if the database does not answer.',
      () => {
        const { waiting, failed } = mail.getState() ?? { waiting: -1, failed: -1 }
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
        const state = mail.getState()
        if (!state) return -1
        return state.oldest_ms === null ? 0 : (Date.now() - state.oldest_ms) / 1000
      },
    )
  }

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
