/** The windows of the rate limits: their counts, and the interface of the store that keeps them. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../../lib/identity.ts'
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

export interface Store {
  /** Adds to all the windows or, if one of them is full, to none: refused requests do not count. */
  add(amount: Amount, windows: readonly Window[]): MaybePromise<readonly Count[]>
}

/** `{ window }`: the name of the window that was full. Metrics count these. */
export const refusedChannel = channel(getChannelName('limits:refused'))

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

/** Returns the one of two counts that replies describe: of full windows that which ends last, else that with less left. */
function chooseReported(selected: Count, count: Count): Count {
  if (count.isExceeded !== selected.isExceeded) return count.isExceeded ? count : selected
  if (count.isExceeded) return count.resetMs > selected.resetMs ? count : selected
  return !count.isReportedOnlyWhenFull && count.remaining < selected.remaining ? count : selected
}

/** Returns the full window that ends last or, if none is full, the one with the least remaining. */
export const selectReported = (counts: readonly Count[]): Count => counts.reduce(chooseReported)

/** Adds to windows. Returns the count that replies describe. */
export const addToWindows = async (
  store: Store,
  amount: Amount,
  windows: readonly Window[],
): Promise<Count> => selectReported(await store.add(amount, windows))
