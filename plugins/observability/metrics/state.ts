/** What is looked at when it is asked for: sockets, connections, whether the database answers. */
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'

/** Milliseconds within which the database must answer, as for `/readyz`. */
const PATIENCE = 1_000

function watchSockets({ server }: FastifyInstance, registers: Registry[]): void {
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
    help: 'Client connections closed at once, because MAX_CONNECTIONS were open.',
    registers,
  })
  server.on('drop', () => dropped.inc())
}

function watchDatabase({ database }: FastifyInstance, registers: Registry[]): void {
  const pool = (name: string, help: string, of: 'size' | 'used' | 'waiting') =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(database.getLoad()[of])
      },
    })
  pool('database_pool_size', 'Connections to the database (POOL_SIZE).', 'size')
  pool('database_pool_in_use', 'Connections lent to a request.', 'used')
  pool('database_pool_waiting', 'Requests that wait for a connection.', 'waiting')
  new Gauge({
    name: 'database_up',
    help: 'Whether the database answered within a second when this was asked (1), or not (0).',
    registers,
    async collect() {
      this.set(
        await database.ping(PATIENCE).then(
          () => 1,
          () => 0,
        ),
      )
    },
  })
}

function watchReplicas({ database }: FastifyInstance, registers: Registry[]): void {
  const { replicas } = database
  if (!replicas) return
  type State = ReturnType<typeof replicas.getStates>[number]
  // By its place in DATABASE_REPLICA_URLS: an address is for the log.
  const each = (name: string, help: string, of: (state: State) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['replica'],
      registers,
      collect() {
        for (const [i, state] of replicas.getStates().entries()) this.set({ replica: i + 1 }, of(state))
      },
    })
  each('database_replica_up', 'Whether the replica takes reads (1), or not (0).', ({ standing }) =>
    standing === 'up' ? 1 : 0,
  )
  each(
    'database_replica_lag_seconds',
    'How long ago the replica is known to have had everything; -1 while nothing is known.',
    ({ lag }) => (Number.isFinite(lag) ? lag / 1000 : -1),
  )
  each('database_replica_pool_in_use', 'Connections to the replica that are lent.', ({ load }) => load.used)
  new Counter({
    name: 'database_reads_total',
    help: 'Requests that read: from a replica, or from the primary, and why from there.',
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
    help: 'Statements that a replica did not answer, and the primary did.',
    registers,
    collect() {
      this.reset()
      this.inc(replicas.counts.failed)
    },
  })
}

export function watchState(app: FastifyInstance, registry: Registry): void {
  watchSockets(app, [registry])
  watchDatabase(app, [registry])
  watchReplicas(app, [registry])
}
