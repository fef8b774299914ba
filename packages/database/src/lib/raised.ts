/** The classes of PostgreSQL (appendix "PostgreSQL Error Codes"). Others are those of `raise exception using errcode`. */
const KNOWN_CLASSES = new Set(
  [
    '00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44',
    '53 54 55 57 58 72 F0 HV P0 XX',
  ]
    .join(' ')
    .split(' '),
)

/** Returns whether a SQLSTATE is that of `raise exception`, or one of the functions of an application. */
export const isRaised = (code: string): boolean => code === 'P0001' || !KNOWN_CLASSES.has(code.slice(0, 2))
