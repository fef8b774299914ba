/** What nearly always is known already, and else is waited for: where it is known, it costs no turn of its own. */

export type Soon<T> = T | Promise<T>

/** Goes on with a value, at once where it is there. */
export const soon = <T, R>(value: Soon<T>, use: (value: T) => Soon<R>): Soon<R> =>
  value instanceof Promise ? value.then(use) : use(value)

/** Ends a hook when all is done that it began, with the error where something failed. */
export function end(work: Soon<void>, done: (error?: Error) => void): void {
  if (work instanceof Promise) work.then(() => done(), done)
  else done()
}
