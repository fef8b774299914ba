/** Work that is done again and again in the background, never twice at once, and that keeps no process alive. */

export interface RepeatOptions {
  /** Milliseconds until the first time, and between the end of one and the next: half as many more at most. */
  first: number
  every: number
  /** The first failure after a success; those that follow it say nothing new. */
  onFailure(error: unknown): void
}

/** @returns what stops it, and waits for what still runs */
export function repeat(work: () => Promise<unknown>, { first, every, onFailure }: RepeatOptions) {
  let running: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout
  let stopped = false
  let failed = false

  const once = async () => {
    try {
      await work()
      failed = false
    } catch (error) {
      if (!failed) onFailure(error)
      failed = true
    }
    plan(every)
  }

  // Not on the dot: replicas that were started together do not come together.
  const plan = (milliseconds: number) => {
    if (stopped) return
    timer = setTimeout(
      () => {
        running = once()
      },
      milliseconds * (1 + Math.random() / 2),
    )
    timer.unref()
  }

  plan(first)
  return async (): Promise<void> => {
    stopped = true
    clearTimeout(timer)
    await running
  }
}
