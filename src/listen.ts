/** Opens the ports, and says in plain words why it could not. */
import type { FastifyInstance } from 'fastify'
import type { Config } from './config.ts'

function reason(
  error: unknown,
  host: string,
  setting: 'PORT' | 'METRICS_PORT',
  port = 0,
): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  switch (error.code) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is in use: another process listens there. Stop it, or set ${setting}.`
    case 'EACCES':
      return `Port ${port} on ${host} may not be opened by this user: set ${setting} to 1024 or more.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HOST ${host} is no address of this machine.`
    default:
      return undefined
  }
}

/** Connections that may wait to be accepted: Node takes one in each turn of its loop, and what finds no room is slow. */
const BACKLOG = 4_096

/**
 * Listens where the settings say, and returns the address.
 * @throws an error whose message can be shown as it is
 */
export async function listen(app: FastifyInstance, config: Config): Promise<string> {
  app.server.maxConnections = config.MAX_CONNECTIONS
  let setting: 'PORT' | 'METRICS_PORT' = 'METRICS_PORT'
  try {
    const metrics = await app.listenMetrics()
    if (metrics !== undefined) app.log.info({ address: `${metrics}/metrics` }, 'metrics are served')
    setting = 'PORT'
    return await app.listen({ host: config.HOST, port: config.PORT, backlog: BACKLOG })
  } catch (error) {
    await app.close()
    const known = reason(error, config.HOST, setting, config[setting])
    throw known === undefined ? error : new Error(known)
  }
}
