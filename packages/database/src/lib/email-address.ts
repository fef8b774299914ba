/** Email addresses in the form in which they are stored and compared. */

/** Returns whether a text has only ASCII characters. */
export const isAscii = (text: string): boolean => /^\p{ASCII}*$/u.test(text)

/**
 * Returns the address in lower case, or undefined if it has other characters than visible ASCII. Those are refused
 * before case folding and NFC, which turn some of them into ASCII letters (U+212A KELVIN SIGN into "k"): two different
 * addresses would become one.
 */
export const toEmailAddress = (text: string): string | undefined =>
  /^[\x21-\x7e]+$/.test(text) ? text.toLowerCase() : undefined
