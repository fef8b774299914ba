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

const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0')

/** A UUIDv7 of that moment, its 74 other bits out of the stream. */
export function uuidAt(moment: number, random: Random): string {
  const time = hex(moment, 12)
  const a = hex(random.bits() & 0xfff, 3)
  const b = hex((random.bits() & 0x3fff) | 0x8000, 4)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${a}-${b}-${hex(random.bits(), 8)}${hex(random.bits() & 0xffff, 4)}`
}
