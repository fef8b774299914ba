/** Maps many values, one after the other, without holding the event loop for long. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Milliseconds of a turn while a request writes many rows: each other request waits for several turns. */
export const SHORT_TURN_MS = 0.3

/**
 * Returns the results of `map`.
 * @param turnMs milliseconds after which other work of the process comes first
 */
export async function mapInTurns<T, R>(
  values: Iterable<T>,
  map: (value: T, position: number) => R | Promise<R>,
  turnMs = 10,
): Promise<R[]> {
  const results: R[] = []
  let startedAt = performance.now()
  for (const value of values) {
    if (performance.now() - startedAt >= turnMs) {
      await nextTurn()
      startedAt = performance.now()
    }
    results.push(await map(value, results.length))
  }
  return results
}
