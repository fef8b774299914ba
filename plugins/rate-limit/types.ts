/** What is counted, and where. */
import type { MaybePromise } from '../../lib/maybe-promise.ts'

/** So many in a while, under a key. It begins with the first, and ends all at once. */
export interface Window {
  /**
   * Whose it is, between braces, so that all of one owner's stand on one node of a Redis cluster; at the end, what it
   * bounds: `{user:0193...}:burst`.
   */
  key: string
  limit: number
  /** Milliseconds. */
  life: number
}

export interface Count {
  key: string
  limit: number
  /** Never negative. */
  remaining: number
  /** Milliseconds until the window ends. */
  left: number
  /** Whether it was full already, and something was to be added. */
  isExceeded: boolean
}

/**
 * What is added to a window: the cost of a request, 0 to read it, -1 to undo. A request is admitted while the window is
 * not full, so a cost above 1 may exceed the limit once.
 */
export type Amount = number

/** A key that another feature sets for a while. It is read together with the counts and so costs no round trip. */
export interface Flag {
  /** As a window's. */
  key: string
  /** Called with the milliseconds for which it stays set, if it is set and the store is shared by all processes. */
  onSet(left: number): void
}

export interface Store {
  /** In all the windows or, where one of them is full, in none: what is refused does not count. */
  add(amount: Amount, windows: readonly Window[], flag?: Flag): MaybePromise<readonly Count[]>
  /** Sets a flag for the other processes, in milliseconds; absent where there are none. */
  setFlag?(key: string, life: number): Promise<void>
}

/** What a window bounds. */
export const nameOf = ({ key }: { key: string }): string => key.slice(key.lastIndexOf(':') + 1)

/** @param used after the addition */
export const countOf = ({ key, limit }: Window, used: number, left: number, isRefused: boolean): Count => ({
  key,
  limit,
  remaining: Math.max(0, limit - used),
  left,
  isExceeded: isRefused && used >= limit,
})
