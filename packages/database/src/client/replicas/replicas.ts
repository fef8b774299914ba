/**
 * Reads from standbys, such that all users see their own writes.
 *
 * After a write, a user's reads go to the primary for as long as a replica may be behind (`recent-writers.ts`). Four
 * times a second, each replica's position in the write-ahead log (`replica.ts`) is compared with the history of the
 * primary's. A replica is read from only if it has everything that was acknowledged longer ago
 * than it may be behind. Statements that fail on a replica run on the primary.
 */
import { createConnection } from '../database.ts'
import type { Address } from '../server/address.ts'
import { afterPendingReads } from '../server/ping.ts'
import type { Connection, DatabaseClient, Replicas, Standing } from '../types.ts'
import { IDENTITY_SQL } from './identity.ts'
import { createRecentWriters } from './recent-writers.ts'
import { createPoll, createReplica, createWalHistory } from './replica.ts'

interface ReplicasOptions {
  primary: Address
  replicas: readonly Address[]
  /** Milliseconds for which a user's reads go to the primary after a write. */
  lag: number
  /** Connections to each replica. */
  size: number
  lifetime: number
}

const STATUS_INTERVAL_MS = 250
/** A smaller lag cannot be distinguished from the time that the status queries take. */
const MIN_LAG_MS = 1000

const POSITION_SQL = `select (pg_current_wal_insert_lsn() - '0/0')::int8 as position, ${IDENTITY_SQL} as identity`

/** Returns a number from the random end of a UUID: a user's reads start with the same replica in every process. */
const toNumber = (userId: string): number => Number.parseInt(userId.slice(-6), 16) || 0

/** Returns the client with `replicas`, which are closed with it. */
export function withReplicas(client: DatabaseClient, options: ReplicasOptions): DatabaseClient {
  const { primary, lag, size, lifetime } = options
  const maxLag = Math.max(lag, MIN_LAG_MS)
  const history = createWalHistory(maxLag)
  const recentWriters = createRecentWriters(lag)
  const counts = { replica: 0, afterWrite: 0, noReplica: 0, failed: 0 }
  const lastChanges = new Map<string, [Standing, string]>()
  const listeners: Parameters<Replicas['onChange']>[0][] = []
  const all = options.replicas.map((address) =>
    createReplica({
      ...{ address, size, maxLag, lifetime },
      onChange(standing, reason) {
        lastChanges.set(address.label, [standing, reason])
        for (const listener of listeners) listener(address.label, standing, reason)
      },
    }),
  )

  const poll = createPoll(primary, lifetime, POSITION_SQL)
  let identity: string | undefined
  const updatePosition = async () => {
    const time = performance.now()
    // While the primary is unavailable, statements on it fail with that error, and the measured lag of the replicas grows.
    const row = await poll.query().catch(() => undefined)
    if (!row) return
    if (row.identity !== identity) history.clear()
    identity = String(row.identity)
    history.add({ time, position: Number(row.position) })
  }
  let isClosing = false
  const update = async () => {
    poll.connection.closeIfSilent()
    for (const replica of all) replica.closeSilent()
    if (isClosing) return
    // The primary first, so that the lag of a replica that has replayed everything is not a whole interval.
    await updatePosition()
    for (const replica of all) void replica.updateStatus({ identity, findReached: history.findReached })
  }
  const timer = setInterval(() => afterPendingReads(update), STATUS_INTERVAL_MS).unref()
  void update()

  const getReader = (userId: string): Connection | undefined => {
    if (recentWriters.mustReadPrimary(userId)) {
      counts.afterWrite += 1
      return undefined
    }
    // The user's own replica, or the next one if that is unusable or full.
    const first = toNumber(userId) % all.length
    const replica = [...all.slice(first), ...all.slice(0, first)].find((each) => each.isUsable())
    if (!replica) {
      counts.noReplica += 1
      return undefined
    }
    counts.replica += 1
    let hasFailed = false
    return createConnection({
      run(...statement) {
        if (hasFailed) return client.run(...statement)
        return replica.run(...statement).catch(() => {
          // The cause does not matter: if the statement itself is wrong, it fails on the primary too.
          counts.failed += 1
          hasFailed = true
          return client.run(...statement)
        })
      },
    })
  }

  return {
    ...client,
    replicas: {
      getReader,
      recentWriters,
      counts,
      getStates: () => all.map((replica) => replica.getState()),
      onChange(listener) {
        for (const [label, [standing, reason]] of lastChanges) listener(label, standing, reason)
        listeners.push(listener)
      },
    },
    async close() {
      isClosing = true
      await Promise.all([...all.map((replica) => replica.close()), poll.connection.close(), client.close()])
      clearInterval(timer)
    },
  }
}
