/** Metrics that are read at each scrape: client sockets, database connections, database and replica state. */
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'

/** As for `/readyz`. */
const PING_TIMEOUT_MS = 1_000

function addSocketMetrics({ server }: FastifyInstance, registers: Registry[]): void {
  new Gauge({
    name: 'http_connections',
    help: 'Open client connections.',
    registers,
    async collect() {
      this.set(
        await new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count ?? 0))),
      )
    },
  })
  const dropped = new Counter({
    name: 'http_connections_dropped_total',
    help: 'Client connections closed on arrival because MAX_CONNECTIONS was reached.',
    registers,
  })
  server.on('drop', () => dropped.inc())
}

function addDatabaseMetrics({ database }: FastifyInstance, registers: Registry[]): void {
  const addPoolGauge = (name: string, help: string, field: 'size' | 'used' | 'waiting') =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(database.getLoad()[field])
      },
    })
  addPoolGauge('database_pool_size', 'Size of the connection pool (POOL_SIZE).', 'size')
  addPoolGauge('database_pool_in_use', 'Connections in use.', 'used')
  addPoolGauge('database_pool_waiting', 'Requests waiting for a connection.', 'waiting')
  new Gauge({
    name: 'database_up',
    help: 'Whether the database answers within a second (1) or not (0), checked at each scrape.',
    registers,
    async collect() {
      this.set(
        await database.ping(PING_TIMEOUT_MS).then(
          () => 1,
          () => 0,
        ),
      )
    },
  })
}

function addReplicaMetrics({ database }: FastifyInstance, registers: Registry[]): void {
  const { replicas } = database
  if (!replicas) return
  type ReplicaState = ReturnType<typeof replicas.getStates>[number]
  // The label is the position in DATABASE_REPLICA_URLS, so that metrics contain no addresses.
  const addReplicaGauge = (name: string, help: string, getValue: (state: ReplicaState) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['replica'],
      registers,
      collect() {
        for (const [i, state] of replicas.getStates().entries()) this.set({ replica: i + 1 }, getValue(state))
      },
    })
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
  new Counter({
    name: 'database_reads_total',
    help: 'Reading requests, by server: a replica, or the primary and the reason for it.',
    labelNames: ['from'],
    registers,
    collect() {
      const { replica, afterWrite, noReplica } = replicas.counts
      this.reset()
      this.inc({ from: 'replica' }, replica)
      this.inc({ from: 'primary_after_write' }, afterWrite)
      this.inc({ from: 'primary_no_replica' }, noReplica)
    },
  })
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

function addEventMetrics(app: FastifyInstance, registers: Registry[]): void {
  if (!app.feed) return
  const { events } = app
  new Gauge({
    name: 'event_streams',
    help: 'Event streams of this process.',
    registers,
    collect() {
      this.set(events.streams.size)
    },
  })
  new Gauge({
    name: 'event_pending_age_seconds',
    help: 'Age of the oldest event without a position; 0 if there is none, -1 if the database does not answer.',
    registers,
    collect() {
      this.set(events.getPendingAge())
    },
  })
}

function addWebhookMetrics({ feed, webhooks }: FastifyInstance, registers: Registry[]): void {
  if (!feed) return
  new Gauge({
    name: 'webhook_longest_wait_seconds',
    help: 'How long an endpoint that is neither slow nor failing has waited for a due delivery to be sent; 0 if none waits, -1 if the database does not answer.',
    registers,
    collect() {
      this.set(webhooks.getLongestWait())
    },
  })
  new Gauge({
    name: 'webhook_endpoints_disabled',
    help: 'Webhook endpoints that the service has disabled; -1 if the database does not answer.',
    registers,
    collect() {
      this.set(webhooks.getCounts()?.disabled ?? -1)
    },
  })
  new Gauge({
    name: 'webhook_owners',
    help: 'Users who have enabled webhook endpoints, by state: all, failing (of one at least, the latest attempt failed); -1 if the database does not answer.',
    labelNames: ['state'],
    registers,
    collect() {
      const counts = webhooks.getCounts()
      this.set({ state: 'all' }, counts?.owners ?? -1)
      this.set({ state: 'failing' }, counts?.failing_owners ?? -1)
    },
  })
}

export function addGauges(app: FastifyInstance, registry: Registry): void {
  addSocketMetrics(app, [registry])
  addDatabaseMetrics(app, [registry])
  addReplicaMetrics(app, [registry])
  addEventMetrics(app, [registry])
  addWebhookMetrics(app, [registry])
}
