/** Limits failed attempts: to look up a credential, and to sign in to an account with a password. */
import { addToWindows, type Count, type Store, type Window } from './windows.ts'

/** Keeps the running attempts of each key. */
function createRunningWork() {
  const running = new Map<string, Set<Promise<unknown>>>()
  return {
    list: (key: string): Promise<unknown>[] => [...(running.get(key) ?? [])],
    async run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const all = running.get(key) ?? new Set()
      const result = work()
      const settled = result.catch(() => undefined)
      running.set(key, all.add(settled))
      try {
        return await result
      } finally {
        all.delete(settled)
        if (all.size === 0 && running.get(key) === all) running.delete(key)
      }
    },
  }
}

/**
 * Creates the function that makes an attempt unless too many have failed. It counts an attempt before it is made, so that
 * concurrent requests cannot make more attempts than may fail, and uncounts it unless it fails. If the limit is reached
 * while other attempts are running, it waits for one of them, which may be uncounted.
 */
export function createFailureCounter(store: Store) {
  const running = createRunningWork()

  const attemptCounted = async <T>(windows: readonly Window[], attempt: () => Promise<T>): Promise<T> => {
    let hasFailed = false
    try {
      const result = await attempt()
      hasFailed = !result
      return result
    } finally {
      if (!hasFailed) await store.add(-1, windows)
    }
  }

  /**
   * @param attempt a falsy result stands for a failed attempt
   * @param onFull called instead of the attempt if one of the windows is full
   */
  return async <T>(
    windows: readonly [Window, ...Window[]],
    attempt: () => Promise<T>,
    onFull: (full: Count) => Promise<T>,
  ): Promise<T> => {
    const [{ key }] = windows
    for (;;) {
      const runningBefore = running.list(key)
      const counted = await addToWindows(store, 1, windows)
      if (!counted.isExceeded) return running.run(key, () => attemptCounted(windows, attempt))
      const others = [...runningBefore, ...running.list(key)]
      if (others.length === 0) return onFull(counted)
      await Promise.race(others)
    }
  }
}
