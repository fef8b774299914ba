/** The two years over which demo rows are spread evenly: the higher a row's index, the later its creation. */
import type { Random } from './random.ts'

export const DAY_MS = 86_400_000
const SPAN_MS = 730 * DAY_MS

export interface Timeline {
  /** Its end, in epoch milliseconds. */
  until: number
  /** Returns the creation time of a row: a moment in one of `count` equal slots; row 0 gets the start of its slot. */
  getMoment(index: number, count: number, random: Random): number
  /** Returns how many of `count` rows have been created by a moment; at least 1. */
  countBefore(moment: number, count: number): number
}

export function createTimeline(until: number): Timeline {
  const start = until - SPAN_MS
  return {
    until,
    getMoment(index, count, random) {
      const offset = random.fraction()
      return start + Math.floor(((index + (index === 0 ? 0 : offset)) / count) * SPAN_MS)
    },
    countBefore: (moment, count) => Math.max(1, Math.floor(((moment - start) / SPAN_MS) * count)),
  }
}

export const toIsoString = (moment: number): string => new Date(moment).toISOString()

/** All numbers of four hexadecimal digits. Formatting UUIDs takes longer than drawing their bits. */
const HEX4 = Array.from({ length: 0x10000 }, (_, value) => value.toString(16).padStart(4, '0'))

const hex4 = (value: number): string => HEX4[value & 0xffff] ?? ''
const hex8 = (value: number): string => hex4(value >>> 16) + hex4(value)

/** Creates a UUIDv7 of a moment, with its 74 random bits from the stream. */
export function createUuid(moment: number, random: Random): string {
  const time = `${hex4(Math.floor(moment / 2 ** 32))}${hex4(moment >>> 16)}-${hex4(moment)}`
  const a = hex4(0x7000 | (random.bits() & 0xfff))
  const b = hex4((random.bits() & 0x3fff) | 0x8000)
  return `${time}-${a}-${b}-${hex8(random.bits())}${hex4(random.bits())}`
}
