/** The database on a PostgreSQL server: a connection pool, one more connection for pings, and optional replicas. */
import type { SemaphoreOptions } from '../../lib/semaphore.ts'
import { publishWait } from '../channels.ts'
import { createDatabase } from '../database.ts'
import { withReplicas } from '../replicas/replicas.ts'
import { retry } from '../retry.ts'
import { DEFAULT_SCHEMA } from '../schema.ts'
import type { Database, DatabaseClient, Queryable } from '../types.ts'
import { parseAddress } from './address.ts'
import { runAlone, ServerConnection } from './connection.ts'
import { afterPendingReads, createPing, PING_OPTIONS } from './ping.ts'
import { createPool } from './pool.ts'

export interface PostgresOptions extends SemaphoreOptions {
  /** `postgres://user:password@host:port/database`, see `address.ts`. */
  url: string
  /** The schema of the tables, default `public`. */
  schema?: string
  /** The addresses of standbys for reads. */
  replicaUrls?: readonly string[]
  /** Milliseconds for which a user's reads go to the primary after a write, and which a replica may be behind. */
  replicaLag?: number
  /** Connections at most to each server, without those for pings. */
  poolSize?: number
  /** Milliseconds one statement may take; 0 for no limit. */
  statementTimeout?: number
  /** Milliseconds that a statement may wait for a lock; 0 for no limit. */
  lockTimeout?: number
  /** Called with each notice of the server. */
  onNotice?: (message: string) => void
  /** Milliseconds, and up to twice as many, until a connection is replaced by a new one. */
  lifetime?: number
}

const MIN_VERSION = 15
/** How often connections are checked for a server that does not answer. */
const CHECK_INTERVAL_MS = 250
const LIFETIME_MS = 30 * 60_000
/** Longer than PostgreSQL's default of `deadlock_timeout`, 1 s: it finds a deadlock before both of its statements give up. */
const LOCK_TIMEOUT_MS = 1500

/**
 * Opens a pool on a server.
 * @throws DatabaseUnavailable if the server does not answer; Error if it is too old, not in UTF-8, or the address is
 * invalid
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const { url, poolSize = 10, statementTimeout = 5000, lifetime = LIFETIME_MS, onNotice, ...others } = options
  const { schema = DEFAULT_SCHEMA, replicaUrls = [], replicaLag = 5000, ...waits } = others
  const { lockTimeout = statementTimeout && LOCK_TIMEOUT_MS, ...limits } = waits
  const address = parseAddress(url, schema)
  const replicas = replicaUrls.map((replicaUrl) => parseAddress(replicaUrl, schema))
  const { connectTimeout } = address
  const common = { address, lifetime, onNotice, ...(connectTimeout !== undefined && { connectTimeout }) }
  const pool = createPool(
    poolSize,
    { ...common, statementTimeout, lockTimeout },
    { onWait: publishWait, ...limits },
  )
  // With short timeouts of its own: a server that is gone must not delay the next ping.
  const pingConnection = new ServerConnection({ ...common, ...PING_OPTIONS })
  const closeSilent = () => {
    pool.closeSilent()
    pingConnection.closeIfSilent()
  }
  const checkTimer = setInterval(() => afterPendingReads(closeSilent), CHECK_INTERVAL_MS).unref()

  const client: DatabaseClient = {
    kind: 'server',
    schema,
    // Retries are outside of the pool: no connection is held during the pause before a retry.
    run: (...statement) =>
      pool.run(...statement).catch((error: unknown) => retry(error, () => pool.run(...statement))),
    transaction: (work, txOptions) =>
      pool
        .transaction(work, txOptions)
        .catch((error: unknown) =>
          retry(error, () => pool.transaction(work, txOptions), txOptions?.maxRetries),
        ),
    runAlone: (text, searchPath) =>
      runAlone({ ...common, address: searchPath === undefined ? address : { ...address, searchPath } }, text),
    ping: createPing(() => pingConnection.run('select 1')),
    getLoad: pool.getLoad,
    estimateWait: pool.estimateWait,
    async close() {
      await pool.close()
      clearInterval(checkTimer)
      await pingConnection.close()
    },
  }
  try {
    await checkServer(client, address.label)
  } catch (error) {
    await client.close()
    throw error
  }
  if (replicas.length === 0) return createDatabase(client)
  const replication = { primary: address, replicas, lag: replicaLag, size: poolSize, lifetime }
  return createDatabase(withReplicas(client, replication))
}

/** @throws Error if the server's version or the database's encoding is not supported */
async function checkServer(connection: Queryable, label: string): Promise<void> {
  const [row] = await connection.run(
    "select current_setting('server_version_num')::int4 as version, current_setting('server_encoding') as encoding",
  )
  const major = Math.floor(Number(row?.version) / 10_000)
  if (!(major >= MIN_VERSION))
    throw new Error(
      `The server at ${label} is PostgreSQL ${major}; version ${MIN_VERSION} or newer is required`,
    )
  if (row?.encoding !== 'UTF8')
    throw new Error(
      `The database at ${label} has the encoding ${row?.encoding}; it must be created with encoding UTF8`,
    )
}
