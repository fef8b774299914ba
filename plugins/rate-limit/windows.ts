/** The windows of the rate limits: whose requests they count, their counts, and the interface of the store that keeps them. */
import { normalizeIP } from '@fastify/rate-limit'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'

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

/** Returns the one of two counts that replies describe: of full windows that which ends last, else that with less left. */
function chooseReported(selected: Count, count: Count): Count {
  if (count.isExceeded !== selected.isExceeded) return count.isExceeded ? count : selected
  if (count.isExceeded) return count.resetMs > selected.resetMs ? count : selected
  return !count.isReportedOnlyWhenFull && count.remaining < selected.remaining ? count : selected
}

/** Returns the full window that ends last or, if none is full, the one with the least remaining. */
export const selectReported = (counts: readonly Count[]): Count => counts.reduce(chooseReported)

/** Providers usually assign a /64 of IPv6 addresses to one customer. */
const IPV6_PREFIX_BITS = 64
const BURST_WINDOW_MS = 1_000

/** Duration of the windows of an IP address. */
export const ADDRESS_WINDOW_MS = 60_000

/** Returns the client's IP address: the /64 network of an IPv6 address, and the IPv4 address of an IPv4-mapped one. */
export const getClientIp = ({ ip }: { ip: string }): string => normalizeIP(ip, IPV6_PREFIX_BITS)

/** Returns the key of an address's window, for example `{203.0.113.1}:anonymous`. */
export const createAddressKey = (request: { ip: string }, name: string): string =>
  `{${getClientIp(request)}}:${name}`

export interface UserLimits {
  limit: number
  durationMs: number
  /** Limit per second. */
  burst: number
}

/** The owner of the windows: the actor of a request, or the user whose session is being refreshed. */
export type Caller = Pick<Actor, 'userId' | 'key'>

/** Returns the windows of a user, which all credentials share, and that of an API key with its own limit. */
export function createUserWindows(
  { userId, key }: Caller,
  { limit, durationMs, burst }: UserLimits,
): Window[] {
  const owner = `{user:${userId}}`
  const windows: Window[] = [
    { key: `${owner}:sustained`, limit, durationMs },
    { key: `${owner}:burst`, limit: burst, durationMs: BURST_WINDOW_MS, isReportedOnlyWhenFull: true },
  ]
  if (key && key.rateLimit !== null) {
    windows.push({ key: `${owner}:${key.id}:key`, limit: key.rateLimit, durationMs })
  }
  return windows
}
