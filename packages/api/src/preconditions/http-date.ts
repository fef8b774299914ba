/** Reads dates of HTTP headers (RFC 9110, section 5.6.7). `Date.parse` accepts other formats, and one as local time. */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const FORMATS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) GMT$/,
  // Sunday, 06-Nov-94 08:49:37 GMT
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) GMT$/,
  // Sun Nov  6 08:49:37 1994
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d) (?<year>\d{4})$/,
]

/** A year of two digits is taken as at most 50 years in the future, as the RFC demands. */
function toFullYear(digits: string): number {
  if (digits.length === 4) return Number(digits)
  const now = new Date().getUTCFullYear()
  const year = now - (now % 100) + Number(digits)
  return year > now + 50 ? year - 100 : year
}

/** Returns the seconds since the epoch, or undefined if the text is not a valid HTTP date. */
export function parseHttpDate(text: string): number | undefined {
  const groups = FORMATS.map((format) => format.exec(text.trim())?.groups).find(Boolean)
  if (!groups) return undefined
  const { year = '', month = '', day = '', hours, minutes, seconds } = groups
  const index = MONTHS.indexOf(month)
  const time = new Date(0)
  time.setUTCFullYear(toFullYear(year), index, Number(day))
  const isReal = time.getUTCMonth() === index && time.getUTCDate() === Number(day)
  // A leap second is written as 60.
  if (!isReal || Number(hours) > 23 || Number(minutes) > 59 || Number(seconds) > 60) return undefined
  time.setUTCHours(Number(hours), Number(minutes), Number(seconds))
  return time.getTime() / 1000
}
