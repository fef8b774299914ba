/** Limits on text that is not yet normalized: its length, and the combining marks in a row. */

/**
 * NFC composes at most this many UTF-16 units to one code point: three characters beyond U+FFFF become U+16D6A. Four
 * units become U+1F82; CRLF, which becomes LF, has two. A trimmed text with more units for each character that it may
 * have is too long after normalization too.
 */
export const MAX_UNITS_PER_CODE_POINT = 6

/**
 * The Stream-Safe Text Format (UAX #15, section 13) has at most 30 non-starters in a row. NFC sorts the marks of a run in
 * quadratic time: 43 s for 900 kB. All non-starters are marks; the few marks that are starters count too.
 * A match starts at the first mark of a run only: with a start at each mark, 200 kB of runs of 30 take 20 ms instead of 2.
 */
const LONG_RUN = /(?<!\p{M})\p{M}{31}/u

export const LONG_MARK_RUN = 'must not contain more than 30 combining marks in a row'

export const hasLongMarkRun = (text: string): boolean => LONG_RUN.test(text)
