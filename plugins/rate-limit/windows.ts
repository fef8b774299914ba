/** The windows in which requests count, by user or by IP address. */
import { normalizeIP } from '@fastify/rate-limit'
import type { Actor } from '../access/index.ts'
import type { Window } from './types.ts'

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
