/** Opens the port, and says in plain words why it could not. */
import type { FastifyInstance } from 'fastify'
import type { Config } from './config.ts'

function reason(error: unknown, { HOST, PORT }: Config): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  switch (error.code) {
    case 'EADDRINUSE':
      return `Port ${PORT} on ${HOST} is in use: another process listens there. Stop it, or set PORT.`
    case 'EACCES':
      return `Port ${PORT} on ${HOST} may not be opened by this user: set PORT to 1024 or more.`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HOST ${HOST} is no address of this machine.`
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
  try {
    return await app.listen({ host: config.HOST, port: config.PORT, backlog: BACKLOG })
  } catch (error) {
    await app.close()
    const known = reason(error, config)
    throw known === undefined ? error : new Error(known)
  }
}
