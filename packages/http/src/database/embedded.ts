/** What the embedded database needs while the server runs: a socket for commands on this machine, and checkpoints. */
import type { Database } from '@resource-api/database'
import { type DatabaseServer, serveDatabase, shortenLog } from '@resource-api/database/client'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'

/** A minute of writes adds at most some 100 MB to the log. */
const LOG_INTERVAL_MS = 60_000

async function embedded(app: FastifyInstance, options: { database: Database } & Pick<Config, 'DATA_DIR'>) {
  const { database } = options
  let served: DatabaseServer | undefined
  try {
    served = await serveDatabase(database, options.DATA_DIR)
  } catch (error) {
    app.log.warn({ err: error }, 'commands cannot use the embedded database while this server runs')
  }
  app.addHook('onClose', () => served?.close())
  app.repeat(
    () => shortenLog(database, () => served?.isCopied() ?? false),
    'the log of the embedded database could not be shortened',
    LOG_INTERVAL_MS,
  )
}

export default fp(embedded, { name: 'embedded-database', decorators: { fastify: ['repeat'] } })
