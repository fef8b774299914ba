/** The time limit of a call: an abort signal that also follows the caller's. */
import { TimeoutError } from './errors.ts'

/** The longest delay of a timer; a longer one would end immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Aborts when the deadline passes or the caller aborts, whichever is first. */
export class Deadline {
  readonly signal: AbortSignal
  readonly #end: number
  readonly #timer: ReturnType<typeof setTimeout>
  readonly #stopFollowing: () => void

  /**
   * @param deadlineMs the time limit
   * @param caller the signal of the caller
   */
  constructor(deadlineMs: number, caller: AbortSignal) {
    // Not AbortSignal.any(): Node.js 20 keeps each combined signal in memory as long as the caller's.
    const controller = new AbortController()
    const follow = () => controller.abort(caller.reason)
    this.signal = controller.signal
    this.#end = performance.now() + deadlineMs
    this.#timer = setTimeout(
      () => controller.abort(new TimeoutError(deadlineMs)),
      Math.min(deadlineMs, MAX_TIMER_MS),
    )
    this.#stopFollowing = () => caller.removeEventListener('abort', follow)
    if (caller.aborted) follow()
    else caller.addEventListener('abort', follow)
  }

  /** Returns whether a wait ends before the deadline. */
  hasTimeFor(ms: number): boolean {
    return performance.now() + ms < this.#end
  }

  /** Waits. @throws the reason of the abort */
  async wait(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const elapsed = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS))
    })
    await this.race(elapsed).finally(() => clearTimeout(timer))
  }

  /** Returns the result of work that goes on after an abort. @throws the reason of the abort */
  async race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this
    let stop = () => {}
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason)
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop)
    })
    return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', stop))
  }

  /** Ends the time limit. */
  clear(): void {
    clearTimeout(this.#timer)
    this.#stopFollowing()
  }
}
