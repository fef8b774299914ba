/** Metrics that are read at each scrape: client sockets, database connections, replicas, events, webhooks. */
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'

/** As for `/readyz`. */
const PING_TIMEOUT_MS = 1_000

/** Values by the value of one label, such as the number of a replica. */
type Values = readonly (readonly [label: string | number, value: number])[]

export function addStateMetrics(app: FastifyInstance, registry: Registry): void {
  const { server, database, feed } = app
  const { replicas } = database
  const registers = [registry]

  const addGauge = (name: string, help: string, read: () => number | Promise<number>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        this.set(await read())
      },
    })
  const addLabeled = (
    Metric: typeof Gauge | typeof Counter,
    name: string,
    help: string,
    label: string,
    read: () => Values,
  ) =>
    new Metric({
      name,
      help,
      labelNames: [label],
      registers,
      collect() {
        this.reset()
        for (const [value, number] of read()) this.inc({ [label]: value }, number)
      },
    })

  addGauge(
    'http_connections',
    'Open client connections.',
    () => new Promise((resolve) => server.getConnections((_, count) => resolve(count ?? 0))),
  )
  const dropped = new Counter({
    name: 'http_connections_dropped_total',
    help: 'Client connections closed on arrival because MAX_CONNECTIONS was reached.',
    registers,
  })
  server.on('drop', () => dropped.inc())

  addGauge('database_pool_size', 'Size of the connection pool (POOL_SIZE).', () => database.getLoad().size)
  addGauge('database_pool_in_use', 'Connections in use.', () => database.getLoad().used)
  addGauge('database_pool_waiting', 'Requests waiting for a connection.', () => database.getLoad().waiting)
  addGauge(
    'database_up',
    'Whether the database answers within a second (1) or not (0), checked at each scrape.',
    () =>
      database.ping(PING_TIMEOUT_MS).then(
        () => 1,
        () => 0,
      ),
  )

  if (replicas) {
    type ReplicaState = ReturnType<typeof replicas.getStates>[number]
    // The label is the position in DATABASE_REPLICA_URLS, so that metrics contain no addresses.
    const addReplicaGauge = (name: string, help: string, read: (state: ReplicaState) => number) =>
      addLabeled(Gauge, name, help, 'replica', () =>
        replicas.getStates().map((state, i) => [i + 1, read(state)] as const),
      )
    addReplicaGauge(
      'database_replica_up',
      'Whether the replica serves reads (1) or not (0).',
      ({ standing }) => (standing === 'up' ? 1 : 0),
    )
    addReplicaGauge(
      'database_replica_lag_seconds',
      'Time since the replica was last known to be up to date; -1 if unknown.',
      ({ lag }) => (Number.isFinite(lag) ? lag / 1000 : -1),
    )
    addReplicaGauge(
      'database_replica_pool_in_use',
      'Connections to the replica in use.',
      ({ load }) => load.used,
    )
    addLabeled(
      Counter,
      'database_reads_total',
      'Reading requests, by server: a replica, or the primary and the reason for it.',
      'from',
      () => [
        ['replica', replicas.counts.replica],
        ['primary_after_write', replicas.counts.afterWrite],
        ['primary_no_replica', replicas.counts.noReplica],
      ],
    )
    new Counter({
      name: 'database_replica_fallbacks_total',
      help: 'Statements that failed on a replica and were run on the primary.',
      registers,
      collect() {
        this.reset()
        this.inc(replicas.counts.failed)
      },
    })
  }

  if (!feed) return
  const { events, webhooks } = app
  addGauge('event_streams', 'Event streams of this process.', () => events.streams.size)
  addGauge(
    'event_pending_age_seconds',
    'Age of the oldest event without a position; 0 if there is none, -1 if the database does not answer.',
    events.getPendingAge,
  )
  addGauge(
    'webhook_longest_wait_seconds',
    'How long an endpoint that is neither slow nor failing has waited for a due delivery to be sent; 0 if none waits, -1 if the database does not answer.',
    webhooks.getLongestWait,
  )
  addGauge(
    'webhook_endpoints_disabled',
    'Webhook endpoints that the service has disabled; -1 if the database does not answer.',
    () => webhooks.getCounts()?.disabled ?? -1,
  )
  addLabeled(
    Gauge,
    'webhook_owners',
    'Users who have enabled webhook endpoints, by state: all, failing (of one at least, the latest attempt failed); -1 if the database does not answer.',
    'state',
    () => [
      ['all', webhooks.getCounts()?.owners ?? -1],
      ['failing', webhooks.getCounts()?.failing_owners ?? -1],
    ],
  )
}
