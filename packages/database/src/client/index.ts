/** Opens the database: a PostgreSQL server if there is an address, else the embedded PGlite. */
import { loadOptional } from '../lib/load-optional.ts'
import type { PostgresOptions } from './server/server.ts'
import type { Database } from './types.ts'

interface DatabaseOptions extends Omit<PostgresOptions, 'url'> {
  /** The address of the server. Without it, the embedded database is opened. */
  url?: string | undefined
  /** The data folder of the embedded database. Without it, the data is kept in memory. */
  dataDir?: string | undefined
}

const EMBEDDED = 'The embedded database, which is used without DATABASE_URL,'

const loadEmbedded = <T>(load: () => Promise<T>) =>
  loadOptional(load, EMBEDDED, import.meta.resolve('#package'))

/**
 * Opens the database. Only the engine in use is loaded: the other one costs time and memory.
 * @throws as `openPostgres` or `openEmbedded` do
 */
export async function openDatabase({ url, dataDir, ...options }: DatabaseOptions): Promise<Database> {
  if (url) return (await import('./server/server.ts')).openPostgres({ url, ...options })
  const { openEmbedded } = await loadEmbedded(() => import('./embedded/embedded.ts'))
  return openEmbedded({ dataDir, ...options })
}

/** Opens the embedded database through the server that has it open. @throws as `connectToServer` does */
export const connectToServer = async (dataDir: string, schema: string): Promise<Database> =>
  (await import('./embedded/socket-client.ts')).connectToServer(dataDir, schema)

/** Opens a copy of the embedded database that a server has open. @throws as `openCopy` does */
export const openCopy = async (dataDir: string, schema: string): Promise<Database> =>
  (await loadEmbedded(() => import('./embedded/copy.ts'))).openCopy(dataDir, schema)

/** Serves the embedded database of this process to commands. @throws as `serveDatabase` does */
export const serveDatabase = async (database: Database, dataDir: string) =>
  (await import('./embedded/socket-server.ts')).serveDatabase(database, dataDir)

/** Writes a checkpoint of the embedded database if it is due. */
export const shortenLog = async (database: Database, isCopied: () => boolean) =>
  (await import('./embedded/checkpoint.ts')).shortenLog(database, isCopied)

export { FolderInUse, NoServer } from './embedded/folder-lock.ts'
export { DatabaseUnavailable, SqlError } from './errors.ts'
export type { Connection, Database, DatabaseClient, Param, Queryable } from './types.ts'
