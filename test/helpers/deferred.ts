/** A promise that a test resolves by hand. */

export interface Deferred {
  promise: Promise<void>
  resolve(): void
}

export function createDeferred(): Deferred {
  let resolvePromise = () => {}
  const promise = new Promise<void>((resolve) => {
    resolvePromise = resolve
  })
  return { promise, resolve: () => resolvePromise() }
}
