/** Opens the ports, and explains in one sentence why a port cannot be opened. */
import type { Server } from 'node:http'
import { getErrorCode } from '@resource-api/database'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config/settings.ts'

function explainListenError(error: unknown, prefix: '' | 'METRICS_', config: Config): string | undefined {
  const host = config[`${prefix}HOST`]
  const setting = `${prefix}PORT` as const
  const port = config[setting] ?? 0
  switch (getErrorCode(error)) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is in use by another process. Stop that process, or set ${setting}.`
    case 'EACCES':
      return `This user may not open port ${port} on ${host}: set ${setting} to 1024 or more.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${prefix}HOST ${host} is not an address of this machine.`
    default:
      return undefined
  }
}

/**
 * Length of the kernel's accept queue. Node.js accepts one connection per turn of its event loop; a client whose SYN
 * finds the queue full has to send it again, a second later.
 */
const BACKLOG = 4_096

/**
 * Limits the connections of a worker process. With `maxConnections`, one that is full gives a connection back to the primary
 * process, which offers it again and again until there is a place.
 */
function dropConnections(server: Server, limit: number): void {
  let count = 0
  server.prependListener('connection', (socket) => {
    count += 1
    socket.once('close', () => {
      count -= 1
    })
    if (count <= limit) return
    server.emit('drop')
    socket.destroy()
  })
}

/**
 * Listens on the configured host and ports.
 * @returns the address of the main port
 * @throws Error with a message for the operator
 */
export async function listen(app: FastifyInstance, config: Config): Promise<string> {
  if (config.WORKERS > 1) dropConnections(app.server, config.MAX_CONNECTIONS)
  else app.server.maxConnections = config.MAX_CONNECTIONS
  let prefix: '' | 'METRICS_' = 'METRICS_'
  try {
    const metrics = await app.listenMetrics()
    if (metrics !== undefined) app.log.info({ address: `${metrics}/metrics` }, 'serving metrics')
    prefix = ''
    return await app.listen({ host: config.HOST, port: config.PORT, backlog: BACKLOG })
  } catch (error) {
    await app.close()
    const message = explainListenError(error, prefix, config)
    throw message === undefined ? error : new Error(message)
  }
}
