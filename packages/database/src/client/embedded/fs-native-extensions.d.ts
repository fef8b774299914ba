/** Types of the one function in use of a package without types. */
declare module 'fs-native-extensions' {
  /**
   * Returns false if the range is locked through another open file. Throws if the file system does not support locks.
   */
  export function tryLock(fd: number, offset?: number, length?: number): boolean
}
