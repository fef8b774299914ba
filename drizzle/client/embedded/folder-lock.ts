/** The data folder belongs to one process at a time: a lock of the operating system, which a kill -9 frees too. */
import {
  closeSync,
  constants,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'

export class FolderInUse extends Error {
  override readonly name = 'FolderInUse'
}

export interface FolderLock {
  release(): void
}

/** The byte that is locked, far behind the text: where locks are mandatory (Windows) the pid stays readable. */
const BYTE = 1 << 20

/**
 * Locks `folder` (made if absent, for its owner only) by its file `lock`, for as long as the process lives or
 * until `release`. The lock belongs to the open file: a second one is refused within this process as well.
 * @throws FolderInUse, with the holder's pid; Error when this platform cannot lock
 */
export async function lockFolder(folder: string): Promise<FolderLock> {
  const tryLock = await loadTryLock()
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const path = realpathSync(folder)
  const file = join(path, 'lock')
  // Not truncated on opening: until it is ours, the text in it is somebody else's.
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    if (!tryLock(fd, BYTE, 1)) throw inUse(path, file)
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`, 0)
  } catch (error) {
    closeSync(fd)
    throw error
  }
  // The file stays: between its removal and its next creation two processes could each lock one of their own.
  let held = true
  return {
    release() {
      if (held) closeSync(fd)
      held = false
    },
  }
}

function inUse(path: string, file: string): FolderInUse {
  const pid = /^\d+/.exec(readFileSync(file, 'latin1'))?.[0]
  return new FolderInUse(
    `The data folder ${path} is in use by another process${pid ? ` (pid ${pid})` : ''}.` +
      ' Two at once would destroy it: stop that one, or give this one a folder of its own.',
  )
}

async function loadTryLock(): Promise<typeof import('fs-native-extensions').tryLock> {
  try {
    // Loaded when needed: with a server, nothing native is, and every platform will do.
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
