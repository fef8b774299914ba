/** Serves the embedded database to the commands on this machine while the server runs. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type Database, serveDatabase } from '../drizzle/client/index.ts'

async function commandSocket(app: FastifyInstance, options: { database: Database; dataDir: string }) {
  try {
    const served = await serveDatabase(options.database, options.dataDir)
    app.addHook('onClose', () => served.close())
  } catch (error) {
    app.log.warn({ err: error }, 'commands cannot use the embedded database while this server runs')
  }
}

export default fp(commandSocket, { name: 'command-socket' })
