/** Waiting in a test until a condition holds. */
import { setTimeout as wait } from 'node:timers/promises'

/** Milliseconds between two checks. */
const INTERVAL = 5

/**
 * Resolves when `condition` holds.
 * @throws when it does not hold after `timeoutMs`
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`The condition does not hold after ${timeoutMs} ms`)
    await wait(INTERVAL)
  }
}
