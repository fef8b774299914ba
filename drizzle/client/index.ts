/** The database room: a server when there is an address, else the embedded one; behind one interface. */
import type { PostgresOptions } from './server/server.ts'
import type { Database } from './types.ts'

export interface DatabaseOptions extends Omit<PostgresOptions, 'url'> {
  /** Of the server; without it, the embedded database. */
  url?: string | undefined
  /** The data folder of the embedded database; without it, in memory. */
  dataDir?: string | undefined
}

/**
 * Only the engine that is meant is loaded: the other one takes time and memory.
 * @throws what `openPostgres` or `openEmbedded` throw
 */
export async function openDatabase({ url, dataDir, ...options }: DatabaseOptions): Promise<Database> {
  if (url) return (await import('./server/server.ts')).openPostgres({ url, ...options })
  const { openEmbedded } = await import('./embedded/embedded.ts')
  const { wait, queue } = options
  return openEmbedded({ dataDir, ...(wait !== undefined && { wait }), ...(queue !== undefined && { queue }) })
}

export { FolderInUse } from './embedded/folder-lock.ts'
export { DatabaseUnavailable, SqlError } from './errors.ts'
export type { RecentWriters } from './replicas/recent-writers.ts'
export type { Replicas, State } from './replicas/replicas.ts'
export type { Connection, Database, Limits, Param, Row } from './types.ts'
