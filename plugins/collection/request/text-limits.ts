/** How long a text may be before it is normalized, and how many combining marks it may have in a row. */

/**
 * The most UTF-16 units that NFC makes one code point of: three characters beyond U+FFFF become U+16D6A. Four become
 * U+1F82, and CRLF, which becomes LF, has two.
 */
const MAX_UNITS_PER_CODE_POINT = 6

/**
 * The UTF-16 units that a trimmed text may have. A longer one still has more than `maxLength` characters when it is
 * normalized, so it need not be.
 */
export const getMaxUnits = (maxLength: number): number => maxLength * MAX_UNITS_PER_CODE_POINT

/**
 * The Stream-Safe Text Format (UAX #15, section 13) has at most 30 non-starters in a row. To sort the marks of a longer
 * run takes quadratic time: 43 s for 900 kB. All non-starters are marks; the few marks that are starters count too.
 */
const LONG_RUN = /\p{M}{31}/u

export const LONG_MARK_RUN = 'must not hold more than 30 combining marks in a row'

export const hasLongMarkRun = (text: string): boolean => LONG_RUN.test(text)
