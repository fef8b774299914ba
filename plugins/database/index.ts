/** The database room: a server when there is an address, else the embedded one; behind one interface. */
import type { PostgresOptions } from './postgres.ts'
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
  if (url) return (await import('./postgres.ts')).openPostgres({ url, ...options })
  const { openEmbedded } = await import('./embedded.ts')
  const { wait, queue } = options
  return openEmbedded({ dataDir, ...(wait !== undefined && { wait }), ...(queue !== undefined && { queue }) })
}

export { DatabaseUnavailable, SqlError } from './errors.ts'
export { FolderInUse } from './lock.ts'
export type { Replicas, State } from './replicas.ts'
export type { Connection, Database, Limits, Param, Row } from './types.ts'
export type { RecentWriters } from './writers.ts'
