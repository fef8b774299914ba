/** Opens the configured database for a command, without the short timeouts that the server needs for its clients. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Option } from '@commander-js/extra-typings'
import { type Database, migrate, openDatabase } from '@resource-api/database'
import { connectToServer, openCopy } from '@resource-api/database/client'
import { FolderInUse, NoServer } from '@resource-api/database/errors'
import { ensureMigrated } from '@resource-api/database/migrations'
import { type Config, readConfig } from '@resource-api/http/config'

export const schemaOption = new Option(
  '--schema <name>',
  'The schema of the tables, instead of DATABASE_SCHEMA',
)

/** Reads the settings. @throws ConfigError, also for the value of the option `--schema` */
export const readSchemaConfig = ({ schema }: { schema?: string | undefined }): Config =>
  readConfig(schema === undefined ? process.env : { ...process.env, DATABASE_SCHEMA: schema })

/** The time to wait for a connection. A command shares its connections with no client; it waits only for its own work. */
const CONNECTION_WAIT_MS = 3_600_000

/**
 * Opens the database, applies pending migrations as the server does, runs `work` and closes the database.
 * @throws as `withOpenDatabase`
 */
export const withDatabase = <T>(config: Config, work: (database: Database) => Promise<T>): Promise<T> =>
  withOpenDatabase(config, async (database) => {
    if (config.MIGRATE) await migrate(database, { lockWaitMs: config.MIGRATION_TIMEOUT })
    else await ensureMigrated(database)
    return work(database)
  })

/**
 * Opens the database for a command that changes nothing, runs `work` and closes the database.
 * @throws Error if there is no database, or it lacks a migration; else as `withOpenDatabase`
 */
export function withMigratedDatabase<T>(
  config: Config,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  ensureFolder(config)
  return withOpenDatabase(config, async (database) => {
    await ensureMigrated(database)
    return work(database)
  })
}

/** @throws Error if the embedded database does not exist; opening it would create it */
export function ensureFolder({ DATABASE_URL: url, DATA_DIR: dataDir }: Config): void {
  if (url === undefined && !existsSync(join(dataDir, 'postgres')))
    throw new Error(`There is no database in ${dataDir}: set DATA_DIR, or DATABASE_URL`)
}

/** Opens a database for a command. */
export type OpenDatabase = (config: Config) => Promise<Database>

/** @throws FolderInUse if another process has the embedded database open */
export const openAlone: OpenDatabase = ({
  DATABASE_URL: url,
  DATABASE_SCHEMA: schema,
  POOL_SIZE: poolSize,
  DATA_DIR: dataDir,
}) =>
  openDatabase({ url, schema, poolSize, dataDir, statementTimeout: 0, acquireTimeout: CONNECTION_WAIT_MS })

/** Returns a function that opens the database, or does so through the server that has the embedded one open. */
const openOr =
  (openServed: (dataDir: string, schema: string) => Promise<Database>): OpenDatabase =>
  (config) =>
    openAlone(config).catch(async (error: unknown) => {
      if (!(error instanceof FolderInUse)) throw error
      try {
        return await openServed(config.DATA_DIR, config.DATABASE_SCHEMA)
      } catch (cause) {
        // Another command has the folder, for example.
        throw cause instanceof NoServer ? new FolderInUse(error.message, { cause }) : cause
      }
    })

/** Opens the database, the embedded one through the socket of the server that has it open. */
export const openShared = openOr(connectToServer)

/** Opens the database to read all of it, or a copy of the embedded one that a server has open. */
export const openSnapshot = openOr(openCopy)

/**
 * Opens the database as it is, runs `work` and closes the database.
 * @throws FolderInUse if another process has the embedded database open and does not share it
 */
export async function withOpenDatabase<T>(
  config: Config,
  work: (database: Database) => Promise<T>,
  open = openShared,
): Promise<T> {
  const database = await open(config)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}
