/**
 * The windows of a user, which all credentials share. They are counted in the store directly, and not by
 * @fastify/rate-limit: the package adds 1 to one window, a user's request adds its cost to several, to all or to none, in
 * one round trip.
 */
import type { Actor } from '../access/index.ts'
import type { Window } from './windows.ts'

const BURST_WINDOW_MS = 1_000

export interface UserLimits {
  limit: number
  durationMs: number
  /** Limit per second. */
  burst: number
}

/** The owner of the windows: the actor of a request, or the user whose session is being refreshed. */
export type Caller = Pick<Actor, 'userId' | 'key'>

/** Returns the windows of a user, and that of an API key with its own limit. */
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
