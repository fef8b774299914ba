/** A task that is repeated in the background: runs never overlap, and its timer does not keep the process alive. */

interface BackgroundTaskOptions {
  /** Milliseconds before the first run. Up to half as many more are added at random. */
  firstDelay: number
  /** Milliseconds between the end of a run and the start of the next. Up to half as many more are added at random. */
  interval: number
  /** Called with the first failure after a success; not with the failures that follow it. */
  onFailure(error: unknown): void
}

/** @returns a function that stops the task and waits for a run in progress */
export function startBackgroundTask(
  work: () => Promise<unknown>,
  { firstDelay, interval, onFailure }: BackgroundTaskOptions,
): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout
  let isStopped = false
  let hasFailed = false

  const run = async () => {
    try {
      await work()
      hasFailed = false
    } catch (error) {
      if (!hasFailed) onFailure(error)
      hasFailed = true
    }
    schedule(interval)
  }

  // A random delay keeps processes that started together from running the task together.
  const schedule = (milliseconds: number) => {
    if (isStopped) return
    timer = setTimeout(
      () => {
        running = run()
      },
      milliseconds * (1 + Math.random() / 2),
    )
    timer.unref()
  }

  schedule(firstDelay)
  return async () => {
    isStopped = true
    clearTimeout(timer)
    await running
  }
}
