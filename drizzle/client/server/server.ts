/** A PostgreSQL server as the house's database: a few sessions behind a gate, and one more to ask how it is. */

import type { GateOptions } from '../../../lib/semaphore.ts'
import { tellWait } from '../channels.ts'
import { withReplicas } from '../replicas/replicas.ts'
import { retried } from '../retry.ts'
import type { Connection, Database } from '../types.ts'
import { parseAddress } from './address.ts'
import { Session } from './connection.ts'
import { createPing, PING } from './ping.ts'
import { createPool } from './pool.ts'

export interface PostgresOptions extends GateOptions {
  /** `postgres://user:password@host:port/database`, see `address.ts`. */
  url: string
  /** Of standbys that take reads. */
  replicaUrls?: readonly string[]
  /** Milliseconds: for so long a user's reads follow a write, and so far behind a replica may be. */
  replicaLag?: number
  /** Connections at most to each server, those for pings not counted. */
  poolSize?: number
  /** Milliseconds one statement may take; 0: for ever. */
  statementTimeout?: number
  /** What the server remarks, a line each. */
  onNotice?: (message: string) => void
  /** Milliseconds, and up to twice as many, until a connection is replaced by a new one. */
  lifetime?: number
}

const OLDEST = 15
/** Milliseconds between looks for connections whose server is silent. */
const TICK = 250

/**
 * Opens a pool on a server that answers now.
 * @throws DatabaseUnavailable when it does not, Error when it is too old, not in UTF-8, or the address is wrong
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const { url, poolSize = 10, statementTimeout = 5000, onNotice, lifetime, ...others } = options
  const { replicaUrls = [], replicaLag = 5000, ...limits } = others
  const address = parseAddress(url)
  const replicas = replicaUrls.map(parseAddress)
  const common = { address, onNotice, lifetime }
  const pool = createPool({
    size: poolSize,
    session: { ...common, statementTimeout },
    gate: { onWait: tellWait, ...limits },
  })
  // Its own limits are short: a server that is gone must not keep the next ping waiting.
  const watch = new Session({ ...common, ...PING })
  const ticking = setInterval(() => {
    pool.check()
    watch.check()
  }, TICK).unref()

  const database: Database = {
    kind: 'server',
    // Who tries again waits outside: a connection is not held by one who pauses.
    run: (text, params, options) => retried(() => pool.run(text, params, options)),
    transaction: (work, limit) => retried(() => pool.transaction(work, limit)),
    ping: createPing(() => watch.run('select 1')),
    load: pool.load,
    delay: pool.delay,
    async close() {
      await pool.close()
      clearInterval(ticking)
      await watch.close()
    },
  }
  try {
    await suits(database, address.label)
  } catch (error) {
    await database.close()
    throw error
  }
  if (replicas.length === 0) return database
  return withReplicas(database, { primary: address, replicas, lag: replicaLag, size: poolSize, lifetime })
}
async function suits(connection: Connection, label: string): Promise<void> {
  const [row] = await connection.run(
    "select current_setting('server_version_num')::int4 as version, current_setting('server_encoding') as encoding",
  )
  const major = Math.floor(Number(row?.version) / 10_000)
  if (major < OLDEST)
    throw new Error(`The server at ${label} is PostgreSQL ${major}; version ${OLDEST} or newer is needed`)
  if (row?.encoding !== 'UTF8')
    throw new Error(
      `The database at ${label} stores text as ${row?.encoding}; it must be created with encoding UTF8`,
    )
}
