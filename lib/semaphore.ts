/** A gate in front of a pool: lends its few members one at a time; who finds none waits in line, not for long. */
import { DatabaseUnavailable } from '../drizzle/client/errors.ts'

interface Waiter<T> {
  admit(member: T): void
  refuse(error: Error): void
  /** These are on the clock of `performance.now()`. */
  since: number
  deadline: number
}

export interface GateOptions {
  /** Milliseconds one may wait for a free member. */
  wait?: number
  /** How many may wait. */
  queue?: number
  /**
   * Milliseconds of one turn of the event loop in which members are lent: where their work is done on this thread,
   * those who come later wait for the next turn, and all else of this one is not held up.
   */
  slice?: number | undefined
  /** Told how many milliseconds one had to wait that got its turn. */
  onWait?: (milliseconds: number) => void
}

/** How busy a gate is. */
export interface Load {
  size: number
  used: number
  waiting: number
}

/**
 * Milliseconds of waiting over which the pace is a mean, roughly: a pause of the whole process must not look like it.
 * When nobody has waited for as long, it is forgotten.
 */
const MEMORY = 1000
/** Fewer turns than these are no pace: the first of all are slow in a process that has just started. */
const FEW = 10

export class Gate<T extends object> {
  readonly #free: T[]
  readonly #size: number
  readonly #wait: number
  readonly #queue: number
  readonly #slice: number | undefined
  readonly #onWait: ((milliseconds: number) => void) | undefined
  /** When the first of this turn of the loop came, if slices are kept. */
  #sliceBegan: number | undefined
  readonly #waiting: Waiter<T>[] = []
  #timer: NodeJS.Timeout | undefined
  #closed: (() => void) | undefined
  /** Turns that were waited for, and the milliseconds from each to the next; both fade. */
  #turns = 0
  #took = 0
  /** Of these, how many there were since it was last forgotten. */
  #seen = 0
  /** When the line began, or last moved. */
  #moved = 0

  constructor(members: readonly T[], { wait = 2000, queue = 1000, slice, onWait }: GateOptions = {}) {
    this.#free = [...members]
    this.#size = members.length
    this.#wait = wait
    this.#queue = queue
    this.#slice = slice
    this.#onWait = onWait
  }

  load(): Load {
    return { size: this.#size, used: this.#size - this.#free.length, waiting: this.#waiting.length }
  }

  /**
   * Runs `work` with a member of its own, first come, first served.
   * @throws DatabaseUnavailable when too many wait, none was free in time, or the gate is closed
   */
  async run<R>(work: (member: T) => Promise<R>): Promise<R> {
    const member = await new Promise<T>((admit, refuse) => this.take(admit, refuse))
    try {
      return await work(member)
    } finally {
      this.give(member)
    }
  }

  /**
   * Lends a member until it is given back: at once where one is free, else to the first in line.
   * @param refuse told a DatabaseUnavailable when too many wait, none was free in time, or the gate is closed
   */
  take(admit: (member: T) => void, refuse: (error: Error) => void): void {
    if (this.#closed) {
      refuse(new DatabaseUnavailable('It is closed already'))
      return
    }
    // Nobody overtakes who waits.
    const isFree = this.#waiting.length === 0 && !this.#isSliceOver()
    const member = isFree ? this.#free.pop() : undefined
    if (member) admit(member)
    else this.#line(admit, refuse)
  }

  /** Takes back what was lent, once. */
  give(member: T): void {
    this.#free.push(member)
    if (this.#waiting.length > 0 && !this.#isSliceOver()) this.#admit()
    this.#leave()
  }

  /** How many stand in line. */
  get waiting(): number {
    return this.#waiting.length
  }

  /**
   * Milliseconds that one who comes now may expect to wait, as fast as the line has moved of late. Of those who came at
   * once, the first to be done says nothing: as many as there are members are done a moment later.
   */
  get delay(): number {
    return this.#seen < Math.max(this.#size, FEW) ? 0 : (this.#waiting.length * this.#took) / this.#turns
  }

  /** Admits nobody any more; resolves when all who were let in or stood in line have left. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      const before = this.#closed
      this.#closed = () => {
        before?.()
        resolve()
      }
      this.#leave()
    })
  }

  #line(admit: (member: T) => void, refuse: (error: Error) => void): void {
    if (this.#waiting.length >= this.#queue) {
      refuse(new DatabaseUnavailable('Too many wait for their turn already'))
      return
    }
    const since = performance.now()
    if (this.#waiting.length === 0) this.#begin(since)
    this.#waiting.push({ admit, refuse, since, deadline: since + this.#wait })
    this.#arm()
  }

  /** The first in line. */
  #admit(): void {
    const next = this.#waiting.shift()
    const member = this.#free.pop()
    if (!next || !member) return
    this.#keepPace()
    this.#onWait?.(performance.now() - next.since)
    if (this.#waiting.length === 0) this.#arm()
    next.admit(member)
  }

  #isSliceOver(): boolean {
    if (this.#slice === undefined) return false
    const now = performance.now()
    if (this.#sliceBegan === undefined) {
      this.#sliceBegan = now
      setImmediate(() => {
        this.#sliceBegan = undefined
        while (this.#waiting.length > 0 && this.#free.length > 0) this.#admit()
      })
    }
    return now - this.#sliceBegan > this.#slice
  }

  /** A line that was slow says nothing of one that begins later: what made it slow may be over. */
  #begin(now: number): void {
    if (now - this.#moved > MEMORY) this.#turns = this.#took = this.#seen = 0
    this.#moved = now
  }

  #keepPace(): void {
    const now = performance.now()
    const took = now - this.#moved
    const kept = Math.exp(-took / MEMORY)
    this.#seen += 1
    this.#turns = this.#turns * kept + 1
    this.#took = this.#took * kept + took
    this.#moved = now
  }

  /** All wait equally long, so the first in line is the first to give up: one timer serves them all. */
  #arm(): void {
    const first = this.#waiting[0]
    if (!first) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    } else this.#timer ??= setTimeout(() => this.#expire(), Math.max(1, first.deadline - performance.now()))
  }

  #expire(): void {
    const now = performance.now()
    this.#timer = undefined
    while (this.#waiting[0] && this.#waiting[0].deadline <= now)
      this.#waiting.shift()?.refuse(new DatabaseUnavailable('The turn did not come in time'))
    this.#arm()
  }

  #leave(): void {
    if (this.#closed && this.#waiting.length === 0 && this.#free.length === this.#size) this.#closed()
  }
}
