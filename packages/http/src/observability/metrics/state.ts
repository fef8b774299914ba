/** Metrics that are read at each scrape: client sockets, database connections and replicas. Other packages add theirs. */
import type { FastifyInstance } from 'fastify'
import { type Aggregator, Counter, Gauge, type Registry } from 'prom-client'

/** As for `/readyz`. */
const PING_TIMEOUT_MS = 1_000

/** Values by the value of the label, such as the number of a replica. */
type Values = readonly (readonly [label: string | number, value: number])[]

interface MetricOptions {
  label?: string
  Metric?: typeof Gauge | typeof Counter
  /**
   * How the values of several worker processes become one. Default: the sum of counters and the largest value of a gauge,
   * since most describe what all processes share.
   */
  aggregator?: Aggregator
}

/** Adds a metric whose value is read at each scrape. */
export type AddMetric = (
  name: string,
  help: string,
  read: () => number | Promise<number> | Values,
  options?: MetricOptions,
) => void

export const createMetricAdder =
  (registry: Registry): AddMetric =>
  (name, help, read, { label, Metric = Gauge, aggregator = Metric === Gauge ? 'max' : 'sum' } = {}) => {
    new Metric({
      ...{ name, help, aggregator },
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      async collect() {
        const result = await read()
        this.reset()
        if (typeof result === 'number') this.inc(result)
        else for (const [value, number] of result) this.inc({ [String(label)]: value }, number)
      },
    })
  }

export function addStateMetrics({ server, database }: FastifyInstance, add: AddMetric): void {
  const { replicas } = database
  add(
    'http_connections',
    'Open client connections.',
    () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count ?? 0))),
    { aggregator: 'sum' },
  )
  let dropped = 0
  server.on('drop', () => dropped++)
  add(
    'http_connections_dropped_total',
    'Client connections closed on arrival because MAX_CONNECTIONS was reached.',
    () => dropped,
    { Metric: Counter },
  )
  const addLoad = (name: string, help: string, key: keyof ReturnType<typeof database.getLoad>) =>
    add(name, help, () => database.getLoad()[key], { aggregator: 'sum' })
  addLoad('database_pool_size', 'Size of the connection pool (POOL_SIZE).', 'size')
  addLoad('database_pool_in_use', 'Connections in use.', 'used')
  addLoad('database_pool_waiting', 'Requests waiting for a connection.', 'waiting')
  add(
    'database_up',
    'Whether the database answers within a second (1) or not (0), checked at each scrape.',
    () =>
      database.ping(PING_TIMEOUT_MS).then(
        () => 1,
        () => 0,
      ),
    { aggregator: 'min' },
  )

  if (replicas) {
    const { getStates, counts } = replicas
    type ReplicaState = ReturnType<typeof getStates>[number]
    // The label is the position in DATABASE_REPLICA_URLS, so that metrics contain no addresses.
    const addReplica = (
      name: string,
      help: string,
      read: (state: ReplicaState) => number,
      aggregator: Aggregator,
    ) =>
      add(name, help, () => getStates().map((state, i) => [i + 1, read(state)] as const), {
        ...{ label: 'replica', aggregator },
      })
    addReplica(
      'database_replica_up',
      'Whether the replica serves reads (1) or not (0).',
      ({ standing }) => Number(standing === 'up'),
      'min',
    )
    addReplica(
      'database_replica_lag_seconds',
      'Time since the replica was last known to be up to date; -1 if unknown.',
      ({ lag }) => (Number.isFinite(lag) ? lag / 1000 : -1),
      'max',
    )
    addReplica(
      'database_replica_pool_in_use',
      'Connections to the replica in use.',
      ({ load }) => load.used,
      'sum',
    )
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
}
