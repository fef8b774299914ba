/**
 * Decorates the app with the database, which is opened before, logs changes of the replicas, and closes it with the
 * app.
 */
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
    if (standing === 'up') app.log.info({ replica }, 'replica in use')
    else
      app.log.warn(
        { replica, standing, reason },
        'replica not in use: reads go to another replica or to the primary',
      )
  })
  app.addHook('onClose', () => options.database.close())
}

export default fp(database, { name: 'database' })
