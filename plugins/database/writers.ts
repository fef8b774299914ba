/** Who has written of late: the reads of these follow to the primary, where what they wrote is to be seen. */

export interface Writers {
  /** Milliseconds for which a writer's reads follow. */
  readonly life: number
  /** Told after each write, whatever came of it; `left` is what is left of the time, where another process was told. */
  wrote(userId: string, left?: number): void
  /** While nobody can say who writes elsewhere, everybody's reads follow; and for as long again as a writer's. */
  doubt(isInDoubt: boolean): void
  follows(userId: string): boolean
}

/** More users than write within the usual few seconds; beyond, who is forgotten makes everybody follow. */
const MOST = 100_000

/** Begins in doubt: another process, or the one before this, may have taken writes a moment ago. */
export function createWriters(life: number, most = MOST): Writers {
  const until = new Map<string, number>()
  let everybody = performance.now() + life

  /** The first were told first; the times of all are about equally long. */
  const forget = (time: number) => {
    for (const [userId, end] of until) {
      if (end > time && until.size <= most) return
      until.delete(userId)
      everybody = Math.max(everybody, end)
    }
  }

  return {
    life,
    wrote(userId, left = life) {
      const time = performance.now()
      const end = time + left
      if ((until.get(userId) ?? 0) >= end) return
      until.delete(userId)
      until.set(userId, end)
      forget(time)
    },
    doubt(isInDoubt) {
      if (life > 0) everybody = isInDoubt ? Number.POSITIVE_INFINITY : performance.now() + life
    },
    follows(userId) {
      const time = performance.now()
      return everybody > time || (until.get(userId) ?? 0) > time
    },
  }
}
