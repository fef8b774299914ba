/** The windows of one user, whatever the credential, and of one key beside them. */

import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'
import type { Count, Flag, Store, Window } from './types.ts'

export interface UserLimits {
  limit: number
  /** Milliseconds. */
  life: number
  burst: number
}

/** Whose windows: a caller, or the user of a session that is not yet refreshed. */
export type Caller = Pick<Actor, 'userId' | 'key'>

export function createByUser(
  store: Store,
  { limit, life, burst }: UserLimits,
  getFlag?: (userId: string) => Flag | undefined,
) {
  const windowsOf = ({ userId, key }: Caller): Window[] => {
    const owner = `{user:${userId}}`
    const own = key?.rateLimit ?? undefined
    return [
      { key: `${owner}:sustained`, limit, life },
      { key: `${owner}:burst`, limit: burst, life: 1_000 },
      ...(key && own !== undefined ? [{ key: `${owner}:${key.id}:key`, limit: own, life }] : []),
    ]
  }

  /** Who calls is remembered with the credential, and what is asked of the store for them with who calls. */
  const asked = new WeakMap<Caller, { windows: Window[]; flag: Flag | undefined }>()
  const askedFor = (caller: Caller) => {
    const known = asked.get(caller)
    if (known) return known
    const made = { windows: windowsOf(caller), flag: getFlag?.(caller.userId) }
    asked.set(caller, made)
    return made
  }

  const worst = ([sustained, ofSecond, ofKey]: readonly Count[]): Count => {
    if (!sustained || !ofSecond) throw new Error('The store counted nothing')
    let full: Count | undefined
    for (const each of [sustained, ofSecond, ofKey]) {
      if (each?.isExceeded && (!full || each.left > full.left)) full = each
    }
    return full ?? (ofKey && ofKey.remaining < sustained.remaining ? ofKey : sustained)
  }

  return {
    /**
     * Counts a request in all windows of the user.
     * @returns the full window that lasts longest, or the one with the least remaining
     */
    take(caller: Caller, cost: number): MaybePromise<Count> {
      const { windows, flag } = askedFor(caller)
      return mapMaybe(store.add(cost, windows, flag), worst)
    },
    /**
     * Adds to what a request of the user counts as, in each window by itself: one that is full keeps its count, and
     * does not keep the others from counting.
     */
    async add(caller: Caller, cost: number): Promise<Count> {
      const counts = await Promise.all(
        askedFor(caller).windows.map(async (window) => (await store.add(cost, [window]))[0]),
      )
      return worst(counts.flatMap((count) => (count ? [count] : [])))
    },
  }
}
