/** Types of the rate limiter: windows, their counts, and the store that keeps them. */
import type { MaybePromise } from '../../lib/maybe-promise.ts'

/** A fixed window: at most `limit` requests per key. It starts with the first request and ends as a whole. */
export interface Window {
  /**
   * The owner in braces, which Redis Cluster uses as the hash tag, so that all windows of one owner are on one node;
   * then the name of the window: `{user:0193...}:burst`.
   */
  key: string
  limit: number
  durationMs: number
  /** Whether replies describe the window only if it refused their request. */
  isReportedOnlyWhenFull?: boolean
}

export interface Count extends Window {
  /** Requests left in the window; never negative. */
  remaining: number
  /** Time until the window ends. */
  resetMs: number
  /** Whether the window was already full when something was to be added. */
  isExceeded: boolean
}

/**
 * The change of a window: the cost of a request, 0 to read it, -1 to undo one. A request is admitted while the window is
 * not full, so a cost above 1 may exceed the limit once.
 */
export type Amount = number

/** A key that another feature sets for some time. It is read together with the counts and so costs no round trip. */
export interface Flag {
  /** Same form as a window's key. */
  key: string
  /** Called if the flag is set and the store is shared by all processes, with the time until it expires. */
  onSet(remainingMs: number): void
}

export interface Store {
  /** Adds to all the windows or, if one of them is full, to none: refused requests do not count. */
  add(amount: Amount, windows: readonly Window[], flag?: Flag): MaybePromise<readonly Count[]>
  /** Sets a flag for the other processes; absent in a store that only one process uses. */
  setFlag?(key: string, durationMs: number): Promise<void>
}

/** Returns the part of the key after the owner, such as `burst`. */
export const getWindowName = ({ key }: { key: string }): string => key.slice(key.lastIndexOf(':') + 1)

/** @param used the window's count after the addition */
export const toCount = (window: Window, used: number, resetMs: number, isRefused: boolean): Count => ({
  // No spread: with it, a count takes 10 us instead of 0.5.
  key: window.key,
  limit: window.limit,
  durationMs: window.durationMs,
  isReportedOnlyWhenFull: window.isReportedOnlyWhenFull ?? false,
  remaining: Math.max(0, window.limit - used),
  resetMs,
  isExceeded: isRefused && used >= window.limit,
})

const precedes = (count: Count, other: Count): boolean => {
  if (count.isExceeded !== other.isExceeded) return count.isExceeded
  if (count.isExceeded) return count.resetMs > other.resetMs
  return !count.isReportedOnlyWhenFull && count.remaining < other.remaining
}

/** Returns the full window that ends last or, if none is full, the one with the least remaining. */
export const selectReported = (counts: readonly Count[]): Count =>
  counts.reduce((selected, count) => (precedes(count, selected) ? count : selected))
