/** When work that failed is attempted again. */

/** A tenth more or less, so that the attempts of an outage do not all return in the same second. */
const JITTER = 0.1

const HOUR = 3_600

/** Milliseconds after the first failed attempt, the second, and so on: of work without delays of its own. Three days in all. */
export const RETRY_DELAYS_MS: readonly number[] = [
  ...[5, 30, 120, 600],
  ...[1, 3, 6, 12, 24, 24].map((hours) => hours * HOUR),
].map((seconds) => seconds * 1_000)

/**
 * Creates the function that returns the milliseconds to the next attempt, after so many have failed; null after the last one.
 * @param delays milliseconds after the first failed attempt, the second, and so on
 */
export const createRetrySchedule =
  (delays: readonly number[]) =>
  (attempts: number, random: () => number = Math.random): number | null => {
    const delay = delays[attempts - 1]
    return delay === undefined ? null : Math.round(delay * (1 - JITTER + 2 * JITTER * random()))
  }
