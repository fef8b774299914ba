/** Chance that repeats itself: one stream of numbers for each thing, so that any thing can be made again, alone, in any order. */

/** What a stream is for; the numbers are part of the data, since every stream begins with one. */
export const STREAMS = { user: 1, profile: 2, post: 3, product: 4, order: 5 } as const

/** Rounds after which nothing of the seed is left to see in sfc32. */
const WARM_UP = 12

export class Random {
  #a: number
  #b: number
  #c: number
  #count = 1

  /** The stream of the `index`-th thing of a kind. */
  constructor(seed: number, kind: keyof typeof STREAMS, index: number) {
    this.#a = seed | 0
    this.#b = STREAMS[kind]
    this.#c = index | 0
    for (let i = 0; i < WARM_UP; i++) this.bits()
  }

  /** 32 random bits, as an unsigned integer (sfc32). */
  bits(): number {
    const sum = (this.#a + this.#b + this.#count++) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }

  /** From 0 to 1, without 1. */
  fraction(): number {
    return this.bits() / 2 ** 32
  }

  /** From `low` to `high`, both included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1))
  }

  /** Whether something happens that happens with this probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(list: readonly T[]): T {
    const found = list[Math.floor(this.fraction() * list.length)]
    if (found === undefined) throw new RangeError('There is nothing to pick from')
    return found
  }

  /** One of the names, each with its share of the whole. */
  share<T extends string>(shares: Readonly<Record<T, number>>): T {
    let rest = this.fraction()
    let last: T | undefined
    for (const name in shares) {
      last = name
      rest -= shares[name]
      if (rest < 0) return name
    }
    if (last === undefined) throw new RangeError('There is nothing to choose from')
    return last
  }
}
