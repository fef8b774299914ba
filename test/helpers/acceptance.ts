/** Measures for how long a server still accepts a credential. */
import { setTimeout as wait } from 'node:timers/promises'

/** Milliseconds between two requests. Without a pause, they would use a whole core for seconds. */
const PAUSE_MS = 10

/**
 * Sends a request again and again until one is refused, or for `limitMs`.
 * @returns milliseconds from the call until the last accepted request was sent
 */
export async function measureAcceptance(
  isAccepted: () => Promise<boolean>,
  limitMs: number,
): Promise<number> {
  const begun = performance.now()
  let last = 0
  while (last < limitMs) {
    const sent = performance.now() - begun
    if (!(await isAccepted())) break
    last = sent
    await wait(PAUSE_MS)
  }
  return last
}
