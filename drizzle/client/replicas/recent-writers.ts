/** Read-your-writes: sends the reads of users who wrote recently to the primary until the replicas have caught up. */

/** Makes a write known to the other processes for its lifetime in milliseconds. */
type Share = (userId: string, lifetime: number) => Promise<void>

export interface RecentWriters {
  /** Records a write in this process. @param remaining milliseconds until it expires; by default the lifetime */
  add(userId: string, remaining?: number): void
  /** Records a write in this process and in the others. */
  publish(userId: string): Promise<void>
  /** Sets the function that makes a write known to the other processes. */
  shareBy(share: Share): void
  /**
   * Sends all reads to the primary while paused, and for the lifetime of a write after that. For times in which writes
   * in other processes are unknown.
   */
  pause(isPaused: boolean): void
  /** Returns whether the user wrote recently, or may have. */
  mustReadPrimary(userId: string): boolean
}

/**
 * More than the users who write within a few seconds. With more, all reads go to the primary for the lifetime of a
 * write.
 */
const MAX_WRITERS = 100_000

/**
 * Creates the record of recent writers. Reads of all users go to the primary for the first `lifetime`, because another
 * process, or this one before its restart, may just have written.
 * @param lifetime milliseconds for which the reads of a user go to the primary after a write; 0 for never
 */
export function createRecentWriters(lifetime: number, maxWriters = MAX_WRITERS): RecentWriters {
  const expiries = new Map<string, number>()
  let allUntil = performance.now() + lifetime
  let share: Share | undefined

  /** The map is in the order of the writes, and so nearly in the order of expiry. */
  const removeExpired = (now: number) => {
    for (const [userId, expiry] of expiries) {
      if (expiry > now && expiries.size <= maxWriters) return
      expiries.delete(userId)
      allUntil = Math.max(allUntil, expiry)
    }
  }

  const add = (userId: string, remaining = lifetime) => {
    const now = performance.now()
    const expiry = now + remaining
    if ((expiries.get(userId) ?? 0) >= expiry) return
    expiries.delete(userId)
    expiries.set(userId, expiry)
    removeExpired(now)
  }

  return {
    add,
    async publish(userId) {
      add(userId)
      if (lifetime > 0) await share?.(userId, lifetime)
    },
    shareBy(by) {
      share = by
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
