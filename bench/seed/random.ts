/** Seeded pseudo-random numbers: a stream for each row, so that any row can be created again, alone and in any order. */
import { v7 } from 'uuid'

/** Returns the number of a stream, which is part of its initial state: the FNV-1a hash of its name. */
function toStream(name: string): number {
  let hash = 0x811c9dc5
  for (const character of name) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  return hash
}

/** Rounds after which the state of sfc32 is well mixed. */
const WARM_UP_ROUNDS = 12

export class Random {
  #a: number
  #b: number
  #c: number
  #count = 1

  /** @param kind the kind of row, such as `user` */
  constructor(seed: number, kind: string, index: number) {
    this.#a = seed | 0
    this.#b = toStream(kind)
    this.#c = index | 0
    for (let i = 0; i < WARM_UP_ROUNDS; i++) this.bits()
  }

  /** 32 random bits, as an unsigned integer (sfc32). */
  bits(): number {
    const sum = (this.#a + this.#b + this.#count++) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }

  /** A number from 0 (inclusive) to 1 (exclusive). */
  fraction(): number {
    return this.bits() / 2 ** 32
  }

  /** An integer from `low` to `high`, both inclusive. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1))
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(list: readonly T[]): T {
    const item = list[Math.floor(this.fraction() * list.length)]
    if (item === undefined) throw new RangeError('Cannot pick from an empty list')
    return item
  }

  /** One of the names, each with its probability. The last one gets what the others leave. */
  share<T extends string>(shares: Readonly<Record<T, number>>): T {
    let rest = this.fraction()
    let chosen: T | undefined
    for (const name in shares) {
      chosen = name
      rest -= shares[name]
      if (rest < 0) break
    }
    if (chosen === undefined) throw new RangeError('Cannot choose from no shares')
    return chosen
  }

  /** A UUIDv7 of a moment, in epoch milliseconds. */
  uuid(moment: number): string {
    const words = Uint32Array.of(this.bits(), this.bits(), this.bits(), this.bits())
    return v7({ msecs: moment, random: new Uint8Array(words.buffer) })
  }
}
