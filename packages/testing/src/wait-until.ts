/** Waits for what an application does after its response, such as its work. */
import { setTimeout as wait } from 'node:timers/promises'

/** Milliseconds between two checks at first, and later: many conditions are statements, which cost CPU. */
const INTERVAL = 5
const MAX_INTERVAL = 50

/**
 * Resolves when `condition` holds.
 * @throws when it does not hold after `timeoutMs`
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const begun = performance.now()
  while (!(await condition())) {
    const elapsed = performance.now() - begun
    if (elapsed > timeoutMs) throw new Error(`The condition does not hold after ${timeoutMs} ms`)
    await wait(Math.min(MAX_INTERVAL, INTERVAL + elapsed / 10))
  }
}
