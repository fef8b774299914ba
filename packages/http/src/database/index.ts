/** The database of the app, opened and migrated before, its background work, and what one user may hold of it. */
import { type Database, ensureSchema, migrate, openDatabase } from '@resource-api/database'
import { ensureMigrated } from '@resource-api/database/migrations'
import { work } from '@resource-api/work'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import connectionShares from './connection-shares.ts'
import embedded from './embedded.ts'

interface DatabaseOptions extends Pick<Config, 'DATA_DIR' | 'POOL_SIZE'> {
  database: Database
  /** Whether commands can use the database, if it is embedded, while the server runs. */
  isServed: boolean
  /** Milliseconds that a write waits for the connections that its user may hold. */
  maxWaitMs?: number
}

declare module 'fastify' {
  interface FastifyInstance {
    database: Database
    /** How many connections to the primary there are. */
    poolSize: number
  }
}

/** Opens the database, and migrates it unless a setting forbids that. No plugin does, whose time Fastify limits. */
export async function openMigratedDatabase(
  config: Pick<Config, 'DATABASE_REPLICA_URLS' | 'DATABASE_SCHEMA' | 'DATABASE_URL' | 'DATA_DIR'> &
    Pick<Config, 'MIGRATE' | 'MIGRATION_TIMEOUT' | 'POOL_SIZE' | 'REPLICA_LAG'>,
  log: FastifyBaseLogger,
): Promise<Database> {
  const database = await openDatabase({
    url: config.DATABASE_URL,
    schema: config.DATABASE_SCHEMA,
    poolSize: config.POOL_SIZE,
    dataDir: config.DATA_DIR,
    replicaUrls: config.DATABASE_REPLICA_URLS,
    replicaLag: config.REPLICA_LAG * 1000,
  })
  try {
    if (config.MIGRATE) await migrate(database, { lockWaitMs: config.MIGRATION_TIMEOUT })
    else await ensureMigrated(database)
    for (const warning of await ensureSchema(database)) log.warn(warning)
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

async function databasePlugin(app: FastifyInstance, options: DatabaseOptions) {
  const { database, isServed, POOL_SIZE } = options
  const traced = app.tracer?.traceDatabase(database) ?? database
  app.decorate('database', app.logStatements?.(traced) ?? traced)
  app.decorate('poolSize', database.kind === 'embedded' ? 1 : POOL_SIZE)
  database.replicas?.onChange((replica, standing, reason) => {
    if (standing === 'up') app.log.info({ replica }, 'replica in use')
    else
      app.log.warn(
        { replica, standing, reason },
        'replica not in use: reads go to another replica or to the primary',
      )
  })
  app.addHook('onClose', () => database.close())
  await app.register(connectionShares, options)
  await app.register(work, { database: app.database })
  if (isServed && database.kind === 'embedded') await app.register(embedded, options)
}

export default fp(databasePlugin, { name: 'database' })
