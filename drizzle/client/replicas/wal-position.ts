/** A history of the primary's positions in the write-ahead log (WAL), from which the lag of a replica is measured. */

export interface WalPosition {
  /**
   * Time of `performance.now()` before the query: `position` includes all that was committed and acknowledged by
   * then.
   */
  time: number
  /** Bytes of WAL since the cluster was created. */
  position: number
}

/** @param maxAge milliseconds for which positions are kept; a replica that is further behind is not read from anyway */
export function createWalHistory(maxAge: number) {
  let history: WalPosition[] = []

  return {
    add({ time, position }: WalPosition) {
      const last = history.at(-1)
      // A position that goes back is another server's, which was promoted without the end of the old primary's WAL.
      if (last && position < last.position) history = []
      if (last?.position === position) last.time = Math.max(last.time, time)
      else history.push({ time, position })
      const firstKept = history.findIndex((entry) => entry.time > time - maxAge)
      if (firstKept > 0) history.splice(0, firstKept)
    },
    /** Returns the latest position that a replica has reached which has replayed up to `replayed`. */
    findReached: (replayed: number): WalPosition | undefined =>
      history.findLast(({ position }) => position <= replayed),
    clear() {
      history = []
    },
  }
}
