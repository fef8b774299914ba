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
        this.set(database.load?.()[of] ?? 0)
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

export function watchState(app: FastifyInstance, registry: Registry): void {
  watchSockets(app, [registry])
  watchDatabase(app, [registry])
}
