/** How often a process looks for what other processes have committed: often after a commit, seldom while nothing happens. */

/** The shortest time between two polls. */
export const POLL_INTERVAL_MS = 500
/** The longest one: an idle process should send few statements. */
const MAX_POLL_INTERVAL_MS = 4_000
/** The interval is the time since the last commit of which the process knows, divided by this. */
const POLLS_PER_IDLE_TIME = 4

export function createPollInterval() {
  /** When the process last knew of a commit: a time of `performance.now()`. */
  let lastCommit = performance.now()
  return {
    /** Records a commit. */
    touch() {
      lastCommit = performance.now()
    },
    /** Returns milliseconds. */
    get(): number {
      const interval = (performance.now() - lastCommit) / POLLS_PER_IDLE_TIME
      return Math.min(MAX_POLL_INTERVAL_MS, Math.max(POLL_INTERVAL_MS, interval))
    },
  }
}
