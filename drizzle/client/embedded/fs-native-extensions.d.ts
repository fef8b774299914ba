/** The one function in use of a package that ships no types. */
declare module 'fs-native-extensions' {
  /** False when another open file holds the range; throws when the file system cannot lock. */
  export function tryLock(fd: number, offset?: number, length?: number): boolean
}
