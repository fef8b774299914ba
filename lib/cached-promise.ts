/** A promise that is created on first use and then shared by all callers. */

/** Returns a function that calls `create` once. A failure is not cached: the next call tries again. */
export function cachePromise<T>(create: () => Promise<T>): () => Promise<T> {
  let cached: Promise<T> | undefined
  return () => {
    cached ??= create().catch((error: unknown) => {
      cached = undefined
      throw error
    })
    return cached
  }
}
