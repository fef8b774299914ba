/**
 * The commonest passwords, which no user may choose. They come from the list of 49,000 that zxcvbn has, of which 300 have
 * the 12 characters that a password needs. Loading the whole list would hold the event loop.
 */
import { commonPasswordList } from './common-password-list.ts'

let known: ReadonlySet<string> | undefined

/** Returns whether a password is in the list, in any letter case. */
export function isCommonPassword(password: string): boolean {
  known ??= new Set(commonPasswordList.trim().split(/\s+/))
  return known.has(password.toLowerCase())
}
