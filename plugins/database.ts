/** The database as the app's: opened or handed over before it is registered, closed with the app. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../drizzle/client/index.ts'

declare module 'fastify' {
  interface FastifyInstance {
    database: Database
  }
}

async function database(app: FastifyInstance, options: { database: Database }) {
  app.decorate('database', options.database)
  options.database.replicas?.onChange((replica, standing, reason) => {
    if (standing === 'up') app.log.info({ replica }, 'a replica takes reads')
    else app.log.warn({ replica, standing, reason }, 'a replica takes no reads: others do, or the primary')
  })
  app.addHook('onClose', () => options.database.close())
}

export default fp(database, { name: 'database' })
