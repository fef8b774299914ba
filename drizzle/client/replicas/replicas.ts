/**
 * Reads from standbys, such that nobody misses what they wrote themselves.
 *
 * A user's reads follow each of their writes to the primary for as long as a replica may be behind (`writers.ts`). How
 * far that is, each replica is asked four times a second (`replica.ts`), against where the primary's log then stood
 * (`positions.ts`): one that lacks anything acknowledged longer ago is not read from. What a replica cannot answer, the
 * primary does.
 */

import type { Load } from '../../../lib/semaphore.ts'
import type { Address } from '../server/address.ts'
import { Session } from '../server/connection.ts'
import { PING } from '../server/ping.ts'
import { createPositions } from '../server/wal-position.ts'
import type { Connection, Database } from '../types.ts'
import { createRecentWriters, type RecentWriters } from './recent-writers.ts'
import { createReplica, IDENTITY, type Standing } from './replica.ts'

/** How a replica is. */
export interface State {
  /** Where, without user and password. */
  label: string
  standing: Standing
  /** Milliseconds since it is known to have had everything. */
  lag: number
  load: Load
}

/** Where the reads of requests were sent, and statements that a replica did not answer. */
export interface Counts {
  replica: number
  /** To the primary, because the user has written of late. */
  afterWrite: number
  /** To the primary, because no replica could be read from. */
  noReplica: number
  failed: number
}

export interface Replicas {
  /**
   * A replica for all reads of one request of this user, undefined where the primary is to be read. Whatever it does not
   * answer is asked of the primary, and so is what comes after.
   */
  readsOf(userId: string): Connection | undefined
  readonly recentWriters: RecentWriters
  readonly counts: Readonly<Counts>
  /** In the order of their addresses. */
  states(): readonly State[]
  /** Told when a replica begins or ceases to be read from; and at once of each that is known already. */
  onChange(listener: (label: string, standing: Standing, why: string) => void): void
}

export interface ReplicasOptions {
  primary: Address
  replicas: readonly Address[]
  /** Milliseconds for which a user's reads follow a write. */
  lag: number
  /** Connections to each. */
  size: number
  lifetime: number | undefined
}

/** Milliseconds. */
const TICK = 250
/** Milliseconds a replica may be behind at least: less cannot be told from what the questions themselves take. */
const LEAST = 1000

const POSITION = `select (pg_current_wal_insert_lsn() - '0/0')::int8 as position, ${IDENTITY} as identity`

/** Of a UUID the end is random: each user begins with the same replica, in every process. */
const numberOf = (userId: string): number => Number.parseInt(userId.slice(-6), 16) || 0

/** The same database with replicas beside it; they are closed with it. */
export function withReplicas(database: Database, options: ReplicasOptions): Database {
  const { primary, lag, size, lifetime } = options
  const bound = Math.max(lag, LEAST)
  const positions = createPositions(bound)
  const recentWriters = createRecentWriters(lag)
  const counts: Counts = { replica: 0, afterWrite: 0, noReplica: 0, failed: 0 }
  const said = new Map<string, [Standing, string]>()
  const listeners: Parameters<Replicas['onChange']>[0][] = []
  const all = options.replicas.map((address) =>
    createReplica({
      ...{ address, size, bound, lifetime },
      onChange(standing, why) {
        said.set(address.label, [standing, why])
        for (const listener of listeners) listener(address.label, standing, why)
      },
    }),
  )

  const watch = new Session({ address: primary, lifetime, again: false, ...PING })
  let identity: string | undefined
  let isAsking = false
  const ask = async () => {
    if (isAsking) return
    isAsking = true
    const time = performance.now()
    try {
      const [row] = await watch.run(POSITION)
      if (row?.identity !== identity) positions.forget()
      identity = String(row?.identity)
      positions.note({ time, position: Number(row?.position) })
    } catch {
      // The primary is away: whoever needs it hears of that, and the replicas grow old.
    } finally {
      isAsking = false
    }
  }
  let isClosing = false
  const look = async () => {
    watch.check()
    for (const replica of all) replica.check()
    if (isClosing) return
    // First the primary, so that who has replayed all of it is found to be a moment behind and not a turn.
    await ask()
    for (const replica of all) void replica.look({ identity, reachedBy: positions.reachedBy })
  }
  const ticking = setInterval(look, TICK).unref()
  void look()

  /** The user's own, the next where that has too much to do. */
  const choose = (userId: string) => {
    const first = numberOf(userId)
    for (let i = 0; i < all.length; i += 1) {
      const replica = all[(first + i) % all.length]
      if (replica?.isUsable() && !replica.isFull()) return replica
    }
    return undefined
  }

  const readsOf = (userId: string): Connection | undefined => {
    if (recentWriters.mustReadPrimary(userId)) {
      counts.afterWrite += 1
      return undefined
    }
    const replica = choose(userId)
    if (!replica) {
      counts.noReplica += 1
      return undefined
    }
    counts.replica += 1
    let hasFailed = false
    return {
      async run(text, params, options) {
        if (!hasFailed) {
          try {
            return await replica.run(text, params, options)
          } catch {
            // Why does not matter: what is wrong with the statement itself, the primary says as well.
            hasFailed = true
            counts.failed += 1
          }
        }
        return database.run(text, params, options)
      },
    }
  }

  return {
    ...database,
    replicas: {
      readsOf,
      recentWriters,
      counts,
      states: () =>
        all.map((each) => ({
          label: each.label,
          standing: each.standing(),
          lag: each.lag(),
          load: each.load(),
        })),
      onChange(listener) {
        for (const [label, [standing, why]] of said) listener(label, standing, why)
        listeners.push(listener)
      },
    },
    async close() {
      isClosing = true
      await Promise.all([...all.map((replica) => replica.close()), watch.close(), database.close()])
      clearInterval(ticking)
    },
  }
}
