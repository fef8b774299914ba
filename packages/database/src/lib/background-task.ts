/** Work that is repeated in the background: runs never overlap, and the timer does not keep the process alive. */

interface BackgroundTaskOptions {
  work(): Promise<unknown>
  /** Returns the milliseconds until the next run: after a run, and when the task is woken. */
  getDelay(): number
  /** Milliseconds from a failure until the next run. */
  retryDelay: number
  /** Up to which the delay doubles with each further failure. Default: it stays the same. */
  maxRetryDelay?: number
  /** Called with the first failure after a success; not with the failures that follow it. */
  onFailure(error: unknown): void
  /** Called with the first success after a failure. */
  onRecovery?(): void
}

export class BackgroundTask {
  /** Resolves when no run is in progress. */
  running: Promise<void> = Promise.resolve()
  isStopped = false
  readonly #options: BackgroundTaskOptions
  /** Undefined before the start and during a run. */
  #timer: NodeJS.Timeout | undefined
  /** When the timer ends: a time of `performance.now()`. */
  #nextRun = 0
  /** The runs that failed since the last success. */
  #failures = 0

  constructor(options: BackgroundTaskOptions) {
    this.#options = options
  }

  /** Whether the last run failed. */
  get hasFailed(): boolean {
    return this.#failures > 0
  }

  /** @param delay milliseconds until the first run */
  start(delay = 0): void {
    this.#schedule(delay)
  }

  /** Makes the next run earlier if `getDelay` now says so. After a failure it stays when it is. */
  wake(): void {
    if (this.#timer && !this.hasFailed) this.#schedule(this.#options.getDelay())
  }

  /** Starts no further run, and waits for one in progress. */
  async stop(): Promise<void> {
    this.isStopped = true
    clearTimeout(this.#timer)
    await this.running
  }

  #schedule(delay: number): void {
    const nextRun = performance.now() + delay
    if (this.isStopped || (this.#timer && this.#nextRun <= nextRun)) return
    clearTimeout(this.#timer)
    this.#nextRun = nextRun
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.running = this.#run()
    }, delay).unref()
  }

  async #run(): Promise<void> {
    const { work, getDelay, retryDelay, maxRetryDelay = retryDelay, onFailure, onRecovery } = this.#options
    try {
      await work()
      if (this.hasFailed) onRecovery?.()
      this.#failures = 0
    } catch (error) {
      if (!this.hasFailed) onFailure(error)
      this.#failures += 1
    }
    this.#schedule(
      this.hasFailed ? Math.min(maxRetryDelay, retryDelay * 2 ** (this.#failures - 1)) : getDelay(),
    )
  }
}
