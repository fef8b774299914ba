/** The three forms of a date in HTTP (RFC 9110, section 5.6.7). `Date.parse` takes far more, and one of these as local time. */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const FORMS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) GMT$/,
  // Sunday, 06-Nov-94 08:49:37 GMT
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) GMT$/,
  // Sun Nov  6 08:49:37 1994
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) (?<year>\d{4})$/,
]

/** Two digits are of the century that puts the year at most 50 years ahead. */
function fullYear(digits: string): number {
  if (digits.length === 4) return Number(digits)
  const now = new Date().getUTCFullYear()
  const year = now - (now % 100) + Number(digits)
  return year > now + 50 ? year - 100 : year
}

/** The second since the epoch that an HTTP date names, undefined for what is none. */
export function secondOf(text: string): number | undefined {
  const groups = FORMS.map((form) => form.exec(text.trim())?.groups).find(Boolean)
  if (!groups) return undefined
  const { year = '', month = '', day = '', hours, minutes, seconds } = groups
  const index = MONTHS.indexOf(month)
  const time = new Date(0)
  time.setUTCFullYear(fullYear(year), index, Number(day))
  const isReal = time.getUTCMonth() === index && time.getUTCDate() === Number(day)
  // A leap second has the number 60.
  if (!isReal || Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 60) return undefined
  time.setUTCHours(Number(hours), Number(minutes), Number(seconds))
  return time.getTime() / 1000
}

/** Rows are of few days; beyond this many one begins anew. */
const MOST_DAYS = 1_000
const MIDNIGHT = ' 00:00:00 GMT'
const days = new Map<string, string>()

/** A day such as `1994-11-06` as the first of the three forms begins, the one to write: `Sun, 06 Nov 1994`. */
export function toHttpDay(day: string): string {
  const known = days.get(day)
  if (known !== undefined) return known
  const made = new Date(`${day}T00:00:00Z`).toUTCString().slice(0, -MIDNIGHT.length)
  if (days.size >= MOST_DAYS) days.clear()
  days.set(day, made)
  return made
}
