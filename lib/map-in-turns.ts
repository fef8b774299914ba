/** Maps many values without holding the event loop for long. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Milliseconds. */
const TURN_MS = 10

/** Returns the results of `map`. After 10 ms of it, other work of the process comes first. */
export async function mapInTurns<T, R>(values: Iterable<T>, map: (value: T) => R): Promise<R[]> {
  const results: R[] = []
  let startedAt = performance.now()
  for (const value of values) {
    if (performance.now() - startedAt >= TURN_MS) {
      await nextTurn()
      startedAt = performance.now()
    }
    results.push(map(value))
  }
  return results
}
