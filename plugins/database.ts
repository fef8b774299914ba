/** The database as the app's: opened or handed over before it is registered, closed with the app. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from './database/index.ts'

declare module 'fastify' {
  interface FastifyInstance {
    database: Database
  }
}

async function database(app: FastifyInstance, options: { database: Database }) {
  app.decorate('database', options.database)
  app.addHook('onClose', () => options.database.close())
}

export default fp(database, { name: 'database' })
