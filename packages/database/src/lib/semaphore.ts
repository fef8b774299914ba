/**
 * A semaphore over a fixed set of members, such as connections: each is lent to one caller at a time, first come,
 * first served.
 */

interface Waiter<T> {
  onAcquire(member: T): void
  onRefuse(error: Error): void
  /** Times of `performance.now()`. */
  since: number
  deadline: number
}

export interface SemaphoreOptions {
  /** Milliseconds that a caller may wait for a free member. */
  acquireTimeout?: number
  /** Callers that may wait at the same time. */
  maxWaiting?: number
  /**
   * Milliseconds of one event loop iteration in which members are lent. For members whose work runs on this thread:
   * later callers wait for the next iteration, so that the other work of this one is not delayed.
   */
  timeSlice?: number | undefined
  /** Called with the milliseconds that a caller waited before it acquired a member. */
  onWait?: (milliseconds: number) => void
  /** Creates the error for a caller that is refused, from the reason as the end of a sentence. */
  createError?: (reason: string) => Error
}

/** Takes a function that ends the waiting of a caller with an error. */
export type OnQueue = (refuse: (error: Error) => void) => void

/** The members in use and the callers that wait for one. */
export interface Load {
  size: number
  used: number
  waiting: number
}

/**
 * Time constant of the moving average of how fast the queue moves: one pause of the whole process does not dominate it.
 * After as long without waiting callers, the average starts over.
 */
const AVERAGE_MS = 1000
/** Fewer samples than these give no average: the first ones are slow in a process that has just started. */
const MIN_SAMPLES = 10

const DEFAULTS = {
  acquireTimeout: 2000,
  maxWaiting: 1000,
  createError: (reason: string) => new Error(`Nothing was acquired: ${reason}`),
}

export class Semaphore<T extends object> {
  readonly #free: T[]
  readonly #size: number
  readonly #options: SemaphoreOptions & typeof DEFAULTS
  /** When the first caller of this event loop iteration came, if there is a time slice. */
  #sliceStart: number | undefined
  readonly #waiting: Waiter<T>[] = []
  #timer: NodeJS.Timeout | undefined
  #onEmpty: (() => void) | undefined
  /** Acquisitions from the queue, and the milliseconds between them; both decay exponentially. */
  #acquired = 0
  #elapsed = 0
  /** Acquisitions from the queue since the average last started over; does not decay. */
  #samples = 0
  /** When the queue started or last moved. */
  #lastMove = 0

  constructor(members: readonly T[], options: SemaphoreOptions = {}) {
    this.#free = [...members]
    this.#size = members.length
    this.#options = { ...DEFAULTS, ...options }
  }

  getLoad(): Load {
    return { size: this.#size, used: this.used, waiting: this.waiting }
  }

  /**
   * Runs `work` with a member and releases the member afterwards.
   * @param onQueue called if the caller must wait, with a function that ends the waiting with an error
   * @throws the error of `createError` if too many callers wait, none was free in time, or the semaphore is closed
   */
  async run<R>(work: (member: T) => Promise<R>, onQueue?: OnQueue): Promise<R> {
    const member =
      this.take() ??
      (await new Promise<T>((resolve, reject) => {
        const refuse = this.wait(resolve, reject)
        onQueue?.(refuse)
      }))
    try {
      return await work(member)
    } finally {
      this.release(member)
    }
  }

  /** Lends a member until it is released. Returns undefined if the caller must wait for one. */
  take(): T | undefined {
    const { timeSlice } = this.#options
    // A new caller does not overtake the callers that wait.
    if (this.#onEmpty || this.#waiting.length > 0) return undefined
    return timeSlice && this.#isSliceOver(timeSlice) ? undefined : this.#free.pop()
  }

  /**
   * Lends a member to a caller that `take` gave none, when it is the first in the queue and a member is released.
   * @param onRefuse called instead if too many callers wait, none was free in time, or the semaphore is closed
   * @returns a function that refuses the caller with an error if it still waits
   */
  wait(onAcquire: (member: T) => void, onRefuse: (error: Error) => void): (error: Error) => void {
    const isFull = this.#waiting.length >= this.#options.maxWaiting
    if (this.#onEmpty || isFull) {
      onRefuse(this.#options.createError(isFull ? 'too many callers are waiting' : 'it is closed'))
      return () => undefined
    }
    const since = performance.now()
    if (this.#waiting.length === 0) {
      // The pace of an old queue does not predict that of a new one: the cause of a slow queue may be gone.
      if (since - this.#lastMove > AVERAGE_MS) this.#acquired = this.#elapsed = this.#samples = 0
      this.#lastMove = since
    }
    const waiter = { onAcquire, onRefuse, since, deadline: since + this.#options.acquireTimeout }
    this.#waiting.push(waiter)
    this.#setTimer()
    return (error) => {
      const index = this.#waiting.indexOf(waiter)
      if (index === -1) return
      this.#waiting.splice(index, 1)
      if (this.#waiting.length === 0) this.#setTimer()
      onRefuse(error)
      if (this.#onEmpty) this.#closeIfEmpty()
    }
  }

  /** Takes a member back. To be called once for each acquisition. */
  release(member: T): void {
    const { timeSlice } = this.#options
    this.#free.push(member)
    if (this.#waiting.length > 0 && !(timeSlice && this.#isSliceOver(timeSlice))) this.#admitFirst()
    if (this.#onEmpty) this.#closeIfEmpty()
  }

  /** The number of members that are lent. */
  get used(): number {
    return this.#size - this.#free.length
  }

  /** The number of callers that wait. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** The share of the time that a caller may wait, which the first of the waiting callers has waited. */
  get waitedShare(): number {
    const [first] = this.#waiting
    return first ? (performance.now() - first.since) / this.#options.acquireTimeout : 0
  }

  /**
   * Returns the milliseconds that a caller that comes now would wait, by the recent pace of the queue. The first
   * acquisitions after a burst are no measure of the pace: as many members as there are become free almost together.
   */
  estimateWait(): number {
    const isMeasured = this.#samples >= Math.max(this.#size, MIN_SAMPLES)
    return isMeasured ? (this.#waiting.length * this.#elapsed) / this.#acquired : 0
  }

  /**
   * Leaves the time since the last acquisition out of the pace, for a caller that returns its member as soon as others
   * have waited: how long it had it does not predict how long they wait for each other.
   */
  skipElapsed(): void {
    this.#lastMove = performance.now()
  }

  /** Refuses new callers. Resolves when all members are released and no caller waits. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      const before = this.#onEmpty
      this.#onEmpty = () => {
        before?.()
        resolve()
      }
      this.#closeIfEmpty()
    })
  }

  #admitFirst(): void {
    const next = this.#waiting.shift()
    const member = this.#free.pop()
    if (!next || !member) return
    const now = performance.now()
    const elapsed = now - this.#lastMove
    const decay = Math.exp(-elapsed / AVERAGE_MS)
    this.#samples += 1
    this.#acquired = this.#acquired * decay + 1
    this.#elapsed = this.#elapsed * decay + elapsed
    this.#lastMove = now
    this.#options.onWait?.(now - next.since)
    if (this.#waiting.length === 0) this.#setTimer()
    next.onAcquire(member)
  }

  #isSliceOver(timeSlice: number): boolean {
    const now = performance.now()
    if (this.#sliceStart === undefined) {
      this.#sliceStart = now
      setImmediate(() => {
        this.#sliceStart = undefined
        while (this.#waiting.length > 0 && this.#free.length > 0) this.#admitFirst()
      })
    }
    return now - this.#sliceStart > timeSlice
  }

  /** All callers wait equally long, so the first in the queue times out first: one timer serves them all. */
  #setTimer(): void {
    const first = this.#waiting[0]
    if (!first) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    } else
      this.#timer ??= setTimeout(() => this.#onDeadline(), Math.max(1, first.deadline - performance.now()))
  }

  /**
   * Refuses after the other work of this event loop iteration: after a pause of the process, timers run first, although a
   * member may have been released during the pause, or may be free and wait for the next time slice.
   */
  #onDeadline(): void {
    this.#timer = undefined
    setImmediate(() => this.#expire())
  }

  #expire(): void {
    const now = performance.now()
    while (this.#waiting[0] && this.#waiting[0].deadline <= now)
      this.#waiting.shift()?.onRefuse(this.#options.createError('none became free in time'))
    this.#setTimer()
  }

  #closeIfEmpty(): void {
    if (this.#onEmpty && this.#waiting.length === 0 && this.#free.length === this.#size) this.#onEmpty()
  }
}
