/** A value or a promise of it. Keeps cache hits synchronous: awaiting a value defers to the microtask queue. */

export type MaybePromise<T> = T | Promise<T>

/** Applies `use` to the value, synchronously unless it is a promise. */
export const mapMaybe = <T, R>(
  value: MaybePromise<T>,
  use: (value: T) => MaybePromise<R>,
): MaybePromise<R> => (value instanceof Promise ? value.then(use) : use(value))

/** Calls a hook's `done` when the work is done, with the error if it fails. */
export function settleHook(work: MaybePromise<void>, done: (error?: Error) => void): void {
  if (work instanceof Promise) work.then(() => done(), done)
  else done()
}
