/** The two years that demo data is spread over, evenly and in order: the later a thing's index, the later it was made. */
import type { Random } from './random.ts'

export const DAY = 86_400_000
const SPAN = 730 * DAY

export interface Timeline {
  /** Epoch milliseconds of its end. */
  until: number
  /** When the `index`-th of `count` things was made: within its own slot, the first at the very beginning. */
  momentOf(index: number, count: number, random: Random): number
  /** How many of `count` things surely were there at a moment; at least one. */
  countBefore(moment: number, count: number): number
}

export function createTimeline(until: number): Timeline {
  const start = until - SPAN
  return {
    until,
    momentOf(index, count, random) {
      const within = random.fraction()
      return start + Math.floor(((index + (index === 0 ? 0 : within)) / count) * SPAN)
    },
    countBefore: (moment, count) => Math.max(1, Math.floor(((moment - start) / SPAN) * count)),
  }
}

export const iso = (moment: number): string => new Date(moment).toISOString()

/** Four digits each, made once: orders name the ids of their products, and to write numbers takes longer than to draw them. */
const DIGITS = Array.from({ length: 0x10000 }, (_, value) => value.toString(16).padStart(4, '0'))

const hex4 = (value: number): string => DIGITS[value & 0xffff] ?? ''
const hex8 = (value: number): string => hex4(value >>> 16) + hex4(value)

/** A UUIDv7 of that moment, its 74 other bits out of the stream. */
export function uuidAt(moment: number, random: Random): string {
  const time = `${hex4(Math.floor(moment / 2 ** 32))}${hex4(moment >>> 16)}-${hex4(moment)}`
  const a = hex4(0x7000 | (random.bits() & 0xfff))
  const b = hex4((random.bits() & 0x3fff) | 0x8000)
  return `${time}-${a}-${b}-${hex8(random.bits())}${hex4(random.bits())}`
}
