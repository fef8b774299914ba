/** Logs each statement with its duration and its rows, but without its values, for development. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { type Database, getErrorCode } from '@resource-api/database'
import { type Row, wrapDatabase } from '@resource-api/database/client'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the database whose statements are logged. Undefined without LOG_SQL. */
    logStatements: ((database: Database) => Database) | undefined
  }
}

async function statementLog(app: FastifyInstance, { LOG_SQL }: Pick<Config, 'LOG_SQL'>) {
  app.decorate('logStatements', undefined)
  if (!LOG_SQL) return
  const current = new AsyncLocalStorage<FastifyRequest>()

  const statement = async (sql: string, run: () => Promise<Row[]>): Promise<Row[]> => {
    // With the id of the request; work in the background has none.
    const { log } = current.getStore() ?? app
    const startedAt = performance.now()
    const getDuration = () => Math.round((performance.now() - startedAt) * 1000) / 1000
    try {
      const rows = await run()
      log.info({ sql, duration_ms: getDuration(), rows: rows.length }, 'statement')
      return rows
    } catch (error) {
      // Not the message, which may quote values.
      log.info({ sql, duration_ms: getDuration(), code: getErrorCode(error) }, 'statement failed')
      throw error
    }
  }
  app.logStatements = (database) => wrapDatabase(database, { statement })

  const enter = (request: FastifyRequest, _reply: FastifyReply, done: () => void) =>
    current.run(request, done)
  app.addHook('onRequest', enter)
  // Again, because the async context is lost in the events of a socket that bring a body, and in the admission queue.
  app.addHook('preHandler', enter)
}

export default fp(statementLog, { name: 'statement-log' })
