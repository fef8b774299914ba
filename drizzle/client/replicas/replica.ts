/** One replica: its connection pool, its lag, and whether it may be read from now. */

import { DatabaseUnavailable, SqlError } from '../errors.ts'
import type { Address } from '../server/address.ts'
import { ServerConnection } from '../server/connection.ts'
import { PING_OPTIONS } from '../server/ping.ts'
import { createPool } from '../server/pool.ts'
import type { Row, Standing } from '../types.ts'
import type { WalPosition } from './wal-position.ts'

interface ReplicaOptions {
  address: Address
  /** Connections at most. */
  size: number
  /** Milliseconds the replica may be behind. */
  maxLag: number
  lifetime: number
  onChange: (standing: Standing, reason: string) => void
}

/** What is known of the primary. */
interface Primary {
  /** Identifies the cluster and the database; undefined before the primary's first answer. */
  identity: string | undefined
  /** Returns the latest position of the primary that a replica has reached which has replayed up to `replayed`. */
  findReached(replayed: number): WalPosition | undefined
}

/** A standby has the system identifier of its primary. */
export const IDENTITY_SQL = `current_database()::text || '/' || (select system_identifier from pg_control_system())`
const REPLAYED_SQL = `(pg_last_wal_replay_lsn() - '0/0')::int8`
const STATUS_SQL = `select pg_is_in_recovery() as standby, ${REPLAYED_SQL} as replayed, ${IDENTITY_SQL} as identity`
const IS_CAUGHT_UP_SQL = `select pg_is_in_recovery() and ${REPLAYED_SQL} >= $1::int8 as holds`

/**
 * A statement that takes longer is tried on the primary, which then has its own five seconds of the ten that a reply
 * may take.
 */
const STATEMENT_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 1000
/** A request that waits longer for a connection reads from the primary. */
const ACQUIRE_TIMEOUT_MS = 250
/** A replica that does not answer `STATUS_SQL` in this time is away. */
const STATUS_TIMEOUT_MS = 1000

const UNKNOWN: WalPosition = { time: Number.NEGATIVE_INFINITY, position: Number.POSITIVE_INFINITY }

/** Returns the SQLSTATE or the code of the operating system. The error's message must not be logged with the reason. */
function getFailureReason(error: unknown): string {
  if (error instanceof SqlError) return error.code
  if (!(error instanceof DatabaseUnavailable)) return 'unknown'
  const cause: unknown = error.cause instanceof Error ? Reflect.get(error.cause, 'code') : undefined
  return error.code ?? (typeof cause === 'string' ? cause : 'lost')
}

export function createReplica({ address, size, maxLag, lifetime, onChange }: ReplicaOptions) {
  let standing: Standing = 'new'
  /** The latest position of the primary that this replica is known to have replayed. */
  let reached = UNKNOWN
  /** When the status query that runs now was sent. */
  let queriedAt: number | undefined
  let isClosing = false

  const common = { address, lifetime, retryIdleReads: false }
  const pool = createPool({
    size,
    connection: {
      ...{ ...common, statementTimeout: STATEMENT_TIMEOUT_MS, connectTimeout: CONNECT_TIMEOUT_MS },
      // A standby that was restarted may show an earlier state, and the address may now lead to another server than
      // the one that was measured.
      onConnect: async (connection) => {
        const isKnown = Number.isFinite(reached.position)
        const [row] = isKnown ? await connection.run(IS_CAUGHT_UP_SQL, [reached.position]) : []
        if (row?.holds !== true) throw new DatabaseUnavailable('The replica is further behind than before')
      },
    },
    limits: { acquireTimeout: ACQUIRE_TIMEOUT_MS, maxWaiting: size },
  })
  const statusConnection = new ServerConnection({ ...common, ...PING_OPTIONS })

  const setStanding = (next: Standing, reason = '') => {
    if (standing === next) return
    standing = next
    onChange(next, reason)
  }

  const takeOutOfUse = (next: 'away' | 'foreign', reason: string) => {
    if (isClosing) return
    reached = UNKNOWN
    setStanding(next, reason)
    pool.destroy()
  }

  const getLag = () => performance.now() - reached.time

  const evaluateStatus = (status: Row | undefined, primary: Primary) => {
    if (primary.identity === undefined) return
    if (status?.standby !== true) return takeOutOfUse('foreign', 'it is not a standby')
    if (status.identity !== primary.identity)
      return takeOutOfUse('foreign', 'it is a standby of another database')
    reached = primary.findReached(Number(status.replayed)) ?? reached
    if (getLag() > maxLag) setStanding('behind', `more than ${maxLag / 1000} s`)
    // Hysteresis: a replica that was behind must catch up to half of the limit before it is read from again.
    else if (standing === 'up' || getLag() <= maxLag / 2) setStanding('up')
  }

  return {
    label: address.label,
    getStanding: () => standing,
    /** Returns the milliseconds since a moment at which the replica is known to have had all committed changes. */
    getLag,
    getLoad: pool.getLoad,
    isUsable: () => standing === 'up' && getLag() <= maxLag,
    isFull: () => pool.getLoad().waiting >= size,
    run: pool.run,

    /** Queries the status, unless a query has no answer yet. */
    async updateStatus(primary: Primary) {
      if (queriedAt !== undefined) return
      const start = performance.now()
      queriedAt = start
      try {
        const [status] = await statusConnection.run(STATUS_SQL)
        if (queriedAt === start) evaluateStatus(status, primary)
      } catch (error) {
        if (queriedAt === start) takeOutOfUse('away', getFailureReason(error))
      } finally {
        if (queriedAt === start) queriedAt = undefined
      }
    },

    /** Closes connections whose server has not answered in time. To be called several times a second. */
    closeSilent() {
      pool.closeSilent()
      if (queriedAt === undefined || performance.now() - queriedAt < STATUS_TIMEOUT_MS) return
      queriedAt = undefined
      statusConnection.destroy()
      takeOutOfUse('away', 'no answer')
    },

    async close() {
      isClosing = true
      await pool.close()
      await statusConnection.close()
    },
  }
}
