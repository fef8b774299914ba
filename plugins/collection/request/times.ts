/** Converts the dates and times of list parameters to instants that can be compared as text. */

/**
 * Returns the instant of a date (at midnight UTC) or of an RFC 3339 time, in UTC with microseconds as PostgreSQL stores
 * it. Digits beyond microseconds are rounded: up for `>=` and `<`, down for `<=`, so that the same rows are selected as
 * without rounding.
 * @param text a valid date or time
 * @returns undefined for an instant outside of the years 0001 to 9999
 */
export function toInstant(text: string, rounding: 'up' | 'down'): string | undefined {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? ''
  const isRoundedUp = rounding === 'up' && /[1-9]/.test(fraction.slice(6))
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0')) + (isRoundedUp ? 1 : 0)
  const startOfSecond = Date.parse(text.replace(/\.\d+/, '').toUpperCase())
  const second = new Date(startOfSecond + Math.floor(micros / 1_000_000) * 1000).toISOString()
  // Years outside of 0000 to 9999 have a sign and six digits.
  if (second.length > 24 || second.startsWith('0000')) return undefined
  return `${second.slice(0, 19)}.${String(micros % 1_000_000).padStart(6, '0')}Z`
}
