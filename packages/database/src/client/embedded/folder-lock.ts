/** Locks the data folder for one process, by a lock of the operating system that is released even after kill -9. */
import { closeSync, constants, ftruncateSync, openSync, readFileSync, realpathSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createFolder } from '../../lib/create-folder.ts'

export class FolderInUse extends Error {
  override readonly name = 'FolderInUse'
}

/** The process that has the folder does not serve it to commands. */
export class NoServer extends Error {
  override readonly name = 'NoServer'
}

/** The byte that is locked, far behind the text: on Windows, where locks are mandatory, the pid stays readable. */
const LOCKED_BYTE = 1 << 20

/**
 * Locks `folder` by its file `lock` until `release` or the end of the process. Creates the folder if it is absent, with
 * access for its owner only. The lock belongs to the open file: a second lock in the same process is refused too.
 * @throws FolderInUse with the pid of the holder; Error if locks are not supported on this platform
 */
export async function lockFolder(folder: string): Promise<{ release(): void }> {
  const tryLock = await loadTryLock()
  createFolder(folder)
  const path = realpathSync(folder)
  const file = join(path, 'lock')
  // Not truncated on opening: until the file is locked, it holds the pid of another process.
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    if (!tryLock(fd, LOCKED_BYTE, 1)) {
      const pid = /^\d+/.exec(readFileSync(file, 'latin1'))?.[0]
      throw new FolderInUse(
        `The data folder ${path} is in use by another process${pid ? ` (pid ${pid})` : ''}.` +
          ' Two processes would destroy the data: stop the other process, or set another DATA_DIR for this one.',
      )
    }
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`, 0)
  } catch (error) {
    closeSync(fd)
    throw error
  }
  // The file is never removed: two processes could then each lock a file of their own under this name.
  let isHeld = true
  return {
    release() {
      if (isHeld) closeSync(fd)
      isHeld = false
    },
  }
}

async function loadTryLock(): Promise<typeof import('fs-native-extensions').tryLock> {
  try {
    // Loaded on demand: with a PostgreSQL server no native module is loaded, and every platform is supported.
    const { tryLock } = await import('fs-native-extensions')
    return tryLock
  } catch (cause) {
    throw new Error(
      `The data folder cannot be locked on this platform (${process.platform}-${process.arch}; musl is not` +
        ' supported), and without a lock the embedded database is not safe. Use a PostgreSQL server (DATABASE_URL).',
      { cause },
    )
  }
}
