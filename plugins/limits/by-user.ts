/** The windows of one user, whatever the credential, and of one key beside them. */
import type { Actor } from '../access.ts'
import type { Count, Store, Window } from './types.ts'

export interface UserLimits {
  limit: number
  /** Milliseconds. */
  life: number
  burst: number
}

/** Whose windows: a caller, or the user of a session that is not yet refreshed. */
export type Caller = Pick<Actor, 'userId' | 'key'>

/** What is to be known of users' writes to all processes, where some of them read from replicas. */
export interface Writes {
  /** Milliseconds for which a write is to be known. */
  life: number
  /** That a user wrote, here or elsewhere, and so many milliseconds of it are left. */
  wrote(userId: string, left: number): void
}

export function createByUser(store: Store, { limit, life, burst }: UserLimits, writes?: Writes) {
  const markOf = (userId: string) => `{user:${userId}}:wrote`

  const windowsOf = ({ userId, key }: Caller): Window[] => {
    const owner = `{user:${userId}}`
    const own = key?.rateLimit ?? undefined
    return [
      { key: `${owner}:sustained`, limit, life },
      { key: `${owner}:burst`, limit: burst, life: 1_000 },
      ...(key && own !== undefined ? [{ key: `${owner}:${key.id}:key`, limit: own, life }] : []),
    ]
  }

  return {
    /** Counts in all of them. What they come to: the full one that lasts longest, else the one with the least left. */
    async take(caller: Caller): Promise<Count> {
      const { userId } = caller
      const mark = writes &&
        writes.life > 0 && { key: markOf(userId), seen: (left: number) => writes.wrote(userId, left) }
      const [sustained, burst, ofKey] = await store.add(1, windowsOf(caller), mark || undefined)
      if (!sustained || !burst) throw new Error('The store counted nothing')
      const all = ofKey ? [sustained, burst, ofKey] : [sustained, burst]
      const [exceeded] = all.filter(({ isExceeded }) => isExceeded).sort((a, b) => b.left - a.left)
      return exceeded ?? (ofKey && ofKey.remaining < sustained.remaining ? ofKey : sustained)
    },
    /** Tells the other processes that this user has written. */
    async wrote(userId: string): Promise<void> {
      if (writes && writes.life > 0) await store.mark?.(markOf(userId), writes.life)
    },
  }
}
