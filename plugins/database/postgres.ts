/** A PostgreSQL server as the house's database: a few sessions behind a gate, and one more to ask how it is. */
import { parseAddress } from './address.ts'
import { createReads, createWrites } from './batches.ts'
import { tellWait } from './events.ts'
import { Gate, type GateOptions } from './gate.ts'
import { createPing } from './ping.ts'
import { retried } from './retry.ts'
import { isRead, Session } from './session.ts'
import type { Connection, Database, Param, RunOptions } from './types.ts'

export interface PostgresOptions extends GateOptions {
  /** `postgres://user:password@host:port/database`, see `address.ts`. */
  url: string
  /** Connections at most, the one for pings not counted. */
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
/** Milliseconds; no ping waits longer than the first two, and one is question enough. */
const PING = { statementTimeout: 1000, connectTimeout: 1000, grace: 0, trust: Number.POSITIVE_INFINITY }

/**
 * Opens a pool on a server that answers now.
 * @throws DatabaseUnavailable when it does not, Error when it is too old, not in UTF-8, or the address is wrong
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const { url, poolSize = 10, statementTimeout = 5000, onNotice, lifetime, ...limits } = options
  const address = parseAddress(url)
  const common = { address, onNotice, lifetime }
  const sessions = Array.from({ length: poolSize }, () => new Session({ ...common, statementTimeout }))
  // Its own limits are short: a server that is gone must not keep the next ping waiting.
  const watch = new Session({ ...common, ...PING })
  const all = [...sessions, watch]
  const gate = new Gate(sessions, { onWait: tellWait, ...limits })
  const readQuickly = createReads(gate)
  const writeQuickly = createWrites(gate)
  const ticking = setInterval(() => {
    for (const session of all) session.check()
  }, TICK).unref()

  const runOnce = (text: string, params?: readonly Param[], options: RunOptions = {}) => {
    if (options.quick) return isRead(text) ? readQuickly(text, params) : writeQuickly(text, params)
    return gate.run((session) => session.run(text, params, options))
  }

  const database: Database = {
    kind: 'server',
    // Who tries again waits outside: a connection is not held by one who pauses.
    run: (...statement) => retried(() => runOnce(...statement)),
    transaction: (work, limit) => retried(() => gate.run((session) => session.transaction(work, limit))),
    ping: createPing(() => watch.run('select 1')),
    load: () => gate.load(),
    delay: () => gate.delay,
    async close() {
      await gate.close()
      clearInterval(ticking)
      await Promise.all(all.map((session) => session.close()))
    },
  }
  try {
    await suits(database, address.label)
  } catch (error) {
    await database.close()
    throw error
  }
  return database
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
