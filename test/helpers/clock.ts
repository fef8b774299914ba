/** A clock that a test sets. */

/** Returns a clock that stands still until it is moved; it starts at a whole second. */
export function createClock() {
  let time = Math.ceil(Date.now() / 1000) * 1000
  return {
    now: () => time,
    /** Epoch seconds. */
    seconds: () => time / 1000,
    pass(milliseconds: number) {
      time += milliseconds
    },
  }
}
