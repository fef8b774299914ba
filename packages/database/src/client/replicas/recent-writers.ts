/** Read-your-writes: sends the reads of users who wrote recently to the primary until the replicas have caught up. */

/** Makes a write known to the other processes for its lifetime in milliseconds. */
type Share = (userId: string, lifetime: number) => Promise<void>

/** More than the users who write within a few seconds. */
const MAX_WRITERS = 100_000

export type RecentWriters = ReturnType<typeof createRecentWriters>

/**
 * Creates the record of recent writers. Reads of all users go to the primary for the first `lifetime`, because another
 * process, or this one before its restart, may just have written.
 * @param lifetime milliseconds for which the reads of a user go to the primary after a write; 0 for never
 * @param maxWriters with more, all reads go to the primary for the lifetime of a write
 */
export function createRecentWriters(lifetime: number, maxWriters = MAX_WRITERS) {
  /** In the order of the writes, and so nearly in the order of expiry. */
  const expiries = new Map<string, number>()
  let allUntil = performance.now() + lifetime
  let share: Share | undefined

  /** Records a write in this process. @param remaining milliseconds until it expires */
  const add = (userId: string, remaining = lifetime): void => {
    const now = performance.now()
    const expiry = now + remaining
    if ((expiries.get(userId) ?? 0) >= expiry) return
    expiries.delete(userId)
    expiries.set(userId, expiry)
    for (const [oldest, end] of expiries) {
      if (end > now && expiries.size <= maxWriters) return
      expiries.delete(oldest)
      allUntil = Math.max(allUntil, end)
    }
  }

  return {
    add,
    /** Records a write in this process and in the others. */
    async publish(userId: string): Promise<void> {
      add(userId)
      if (lifetime > 0) await share?.(userId, lifetime)
    },
    /** Sets the function that makes a write known to the other processes. */
    shareBy(by: Share): void {
      share = by
    },
    /**
     * Sends all reads to the primary while paused, and for the lifetime of a write after that. For times in which
     * writes in other processes are unknown.
     */
    pause(isPaused: boolean): void {
      if (lifetime > 0) allUntil = isPaused ? Number.POSITIVE_INFINITY : performance.now() + lifetime
    },
    /** Returns whether the user wrote recently, or may have. */
    mustReadPrimary(userId: string): boolean {
      const now = performance.now()
      return allUntil > now || (expiries.get(userId) ?? 0) > now
    },
  }
}
