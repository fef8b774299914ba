/** One replica: its connection pool, its lag, and whether it may be read from now. */
import { DatabaseUnavailable, SqlError } from '../errors.ts'
import type { Address } from '../server/address.ts'
import { ServerConnection } from '../server/connection.ts'
import { PING_OPTIONS } from '../server/ping.ts'
import { createPool } from '../server/pool.ts'
import type { Row, Standing } from '../types.ts'
import { IDENTITY_SQL } from './identity.ts'

interface WalPosition {
  /** Time of `performance.now()` before the query: `position` includes all that was acknowledged by then. */
  time: number
  /** Bytes of the write-ahead log (WAL) since the cluster was created. */
  position: number
}

/**
 * Creates a history of the primary's positions, from which the lag of a replica is measured.
 * @param maxAge milliseconds for which positions are kept; a replica that is further behind is not read from anyway
 */
export function createWalHistory(maxAge: number) {
  let history: WalPosition[] = []

  return {
    add({ time, position }: WalPosition) {
      const last = history.at(-1)
      // A position that goes back is another server's, which was promoted without the end of the old primary's WAL.
      if (last && position < last.position) history = []
      if (last?.position === position) last.time = Math.max(last.time, time)
      else history.push({ time, position })
      const firstKept = history.findIndex((entry) => entry.time > time - maxAge)
      if (firstKept > 0) history.splice(0, firstKept)
    },
    /** Returns the latest position that a replica has reached which has replayed up to `replayed`. */
    findReached: (replayed: number): WalPosition | undefined =>
      history.findLast(({ position }) => position <= replayed),
    clear() {
      history = []
    },
  }
}

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

const REPLAYED_SQL = `(pg_last_wal_replay_lsn() - '0/0')::int8`
const STATUS_SQL = `select pg_is_in_recovery() as standby, ${REPLAYED_SQL} as replayed, ${IDENTITY_SQL} as identity`
const IS_CAUGHT_UP_SQL = `select pg_is_in_recovery() and ${REPLAYED_SQL} >= $1::int8 as holds`

/** A slower statement is tried on the primary, which has its own five seconds of the ten that a reply may take. */
const STATEMENT_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 1000
/** A request that waits longer for a connection reads from the primary. */
const ACQUIRE_TIMEOUT_MS = 250

const UNKNOWN: WalPosition = { time: Number.NEGATIVE_INFINITY, position: Number.POSITIVE_INFINITY }

/** Returns the SQLSTATE or the code of the operating system. The error's message must not be logged with the reason. */
function getFailureReason(error: unknown): string {
  if (error instanceof SqlError) return error.code
  if (!(error instanceof DatabaseUnavailable)) return 'unknown'
  const cause: unknown = error.cause instanceof Error ? Reflect.get(error.cause, 'code') : undefined
  return error.code ?? (typeof cause === 'string' ? cause : 'lost')
}

/** Runs a query on a connection of its own, once at a time: `query` returns undefined while one has no answer. */
export function createPoll(address: Address, lifetime: number, text: string) {
  const connection = new ServerConnection({ address, lifetime, retryIdleReads: false, ...PING_OPTIONS })
  let isRunning = false
  return {
    connection,
    async query(): Promise<Row | undefined> {
      if (isRunning) return undefined
      isRunning = true
      try {
        return (await connection.run(text))[0]
      } finally {
        isRunning = false
      }
    },
  }
}

export function createReplica({ address, size, maxLag, lifetime, onChange }: ReplicaOptions) {
  let standing: Standing = 'new'
  /** The latest position of the primary that this replica is known to have replayed. */
  let reached = UNKNOWN
  let isClosing = false

  const pool = createPool(
    size,
    {
      ...{ address, lifetime, retryIdleReads: false },
      ...{
        statementTimeout: STATEMENT_TIMEOUT_MS,
        connectTimeout: address.connectTimeout ?? CONNECT_TIMEOUT_MS,
      },
      // A standby that was restarted may show an earlier state, and the address may now lead to another server than
      // the one that was measured.
      onConnect: async (connection) => {
        const isKnown = Number.isFinite(reached.position)
        const [row] = isKnown ? await connection.run(IS_CAUGHT_UP_SQL, [reached.position]) : []
        if (row?.holds !== true) throw new DatabaseUnavailable('The replica is further behind than before')
      },
    },
    { acquireTimeout: ACQUIRE_TIMEOUT_MS, maxWaiting: size },
  )
  const poll = createPoll(address, lifetime, STATUS_SQL)

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
  const evaluateStatus = (status: Row, primary: Primary) => {
    if (primary.identity === undefined) return
    if (status.standby !== true) return takeOutOfUse('foreign', 'it is not a standby')
    if (status.identity !== primary.identity)
      return takeOutOfUse('foreign', 'it is a standby of another database')
    reached = primary.findReached(Number(status.replayed)) ?? reached
    if (getLag() > maxLag) setStanding('behind', `more than ${maxLag / 1000} s`)
    // Hysteresis: a replica that was behind must catch up to half of the limit before it is read from again.
    else if (standing === 'up' || getLag() <= maxLag / 2) setStanding('up')
  }

  return {
    label: address.label,
    run: pool.run,
    /** Returns the milliseconds since a moment at which the replica is known to have had all committed changes. */
    getLag,
    getState: () => ({ label: address.label, standing, lag: getLag(), load: pool.getLoad() }),
    isUsable: () => standing === 'up' && getLag() <= maxLag && pool.getLoad().waiting < size,

    async updateStatus(primary: Primary) {
      try {
        const status = await poll.query()
        if (status) evaluateStatus(status, primary)
      } catch (error) {
        takeOutOfUse('away', getFailureReason(error))
      }
    },
    /** Closes connections whose server has not answered in time. To be called several times a second. */
    closeSilent() {
      pool.closeSilent()
      if (poll.connection.closeIfSilent()) takeOutOfUse('away', 'no answer')
    },
    async close() {
      isClosing = true
      await Promise.all([pool.close(), poll.connection.close()])
    },
  }
}
