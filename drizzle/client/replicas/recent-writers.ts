/** Read-your-writes: sends the reads of users who wrote recently to the primary until the replicas have caught up. */

/** A flag in a store that all processes share, such as Redis. */
export interface SharedFlag {
  key: string
  /** Called where the flag is set, with the milliseconds for which it stays set. */
  onSet(left: number): void
}

type SetFlag = (key: string, lifetime: number) => Promise<void>

export interface RecentWriters {
  /** Records a write in this process. */
  add(userId: string, left?: number): void
  /** Records a write in this process and, through the shared store, in the others. */
  publish(userId: string): Promise<void>
  /** Returns the flag that is set by writes in other processes; undefined if a write has no lifetime here. */
  getFlag(userId: string): SharedFlag | undefined
  /** Sets the function that sets a flag in the shared store. */
  shareBy(setFlag: SetFlag): void
  /**
   * Sends all reads to the primary while paused, and for the lifetime of a write after that. For times in which the
   * shared store is unavailable and writes in other processes are unknown.
   */
  pause(isPaused: boolean): void
  mustReadPrimary(userId: string): boolean
}

/**
 * More than the users who write within a few seconds. With more, all reads go to the primary for the lifetime of a
 * write.
 */
const MAX_WRITERS = 100_000

const toKey = (userId: string) => `{user:${userId}}:wrote`

/**
 * @param lifetime how long the reads of a writer go to the primary, in milliseconds; 0: never. All reads do at first,
 * because another process, or this one before it was restarted, may just have written.
 */
export function createRecentWriters(lifetime: number, maxWriters = MAX_WRITERS): RecentWriters {
  const expiries = new Map<string, number>()
  let allUntil = performance.now() + lifetime
  let setFlag: SetFlag | undefined

  /** The map is in the order of the writes, and so nearly in the order of expiry. */
  const removeExpired = (now: number) => {
    for (const [userId, expiry] of expiries) {
      if (expiry > now && expiries.size <= maxWriters) return
      expiries.delete(userId)
      allUntil = Math.max(allUntil, expiry)
    }
  }

  const add = (userId: string, left = lifetime) => {
    const now = performance.now()
    const expiry = now + left
    if ((expiries.get(userId) ?? 0) >= expiry) return
    expiries.delete(userId)
    expiries.set(userId, expiry)
    removeExpired(now)
  }

  return {
    add,
    async publish(userId) {
      add(userId)
      if (lifetime > 0) await setFlag?.(toKey(userId), lifetime)
    },
    getFlag: (userId) =>
      lifetime > 0 ? { key: toKey(userId), onSet: (left) => add(userId, left) } : undefined,
    shareBy(set) {
      setFlag = set
    },
    pause(isPaused) {
      if (lifetime > 0) allUntil = isPaused ? Number.POSITIVE_INFINITY : performance.now() + lifetime
    },
    mustReadPrimary(userId) {
      const now = performance.now()
      return allUntil > now || (expiries.get(userId) ?? 0) > now
    },
  }
}
