/** Where the primary's log stood, and when: what a replica has replayed then says how old it is at most. */

export interface Known {
  /** On the clock of `performance.now()`, before the question: all that was acknowledged by then lies before `position`. */
  time: number
  /** Bytes of write-ahead log since the beginning. */
  position: number
}

/** @param memory milliseconds; who is further behind is not read from anyway */
export function createPositions(memory: number) {
  let known: Known[] = []

  return {
    note({ time, position }: Known) {
      const last = known.at(-1)
      // Less than before is another server, which has taken over without the other's last words.
      if (last && position < last.position) known = []
      if (last?.position === position) last.time = Math.max(last.time, time)
      else known.push({ time, position })
      const old = known.findIndex((each) => each.time > time - memory)
      if (old > 0) known.splice(0, old)
    },
    /** The latest of them that one who has replayed so much has reached. */
    reachedBy: (replayed: number): Known | undefined =>
      known.findLast(({ position }) => position <= replayed),
    forget() {
      known = []
    },
  }
}
