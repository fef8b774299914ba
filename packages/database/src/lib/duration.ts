/** Durations as settings of code: `30s`, `15m`, `1h`, `7d`. */

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

export type Duration = `${number}${keyof typeof UNITS_MS}`

const isUnit = (text: string): text is keyof typeof UNITS_MS => Object.hasOwn(UNITS_MS, text)

/** Returns milliseconds. @throws Error if the text is no duration of at least a second */
export function toMilliseconds(text: string): number {
  const [, count = '', unit = ''] = /^([1-9]\d{0,5})([smhd])$/.exec(text) ?? []
  if (!isUnit(unit)) throw new Error(`"${text}" is no duration such as "30s", "15m", "1h" or "7d"`)
  return Number(count) * UNITS_MS[unit]
}
