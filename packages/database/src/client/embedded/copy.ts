/**
 * A copy of the embedded database of a running server, for a command that reads all of it: one transaction on the only
 * connection of the server would keep its requests waiting. The files are copied while the server writes, as
 * pg_basebackup does: PostgreSQL replays the log when it starts on the copy.
 */
import { constants, rmSync } from 'node:fs'
import { copyFile, readdir, stat, statfs, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createFolder } from '../../lib/create-folder.ts'
import { getErrorCode } from '../../lib/error-code.ts'
import type { Database } from '../types.ts'
import { createEmbedded } from './embedded.ts'
import { startCopy } from './engine.ts'
import { FolderInUse, lockFolder } from './folder-lock.ts'
import { ServerSession } from './socket-client.ts'

const LOG_FOLDER = 'pg_wal'
const LOG_FILE = /^[0-9A-F]{24}$/
/** Of the process, not of the data. */
const PID_FILE = 'postmaster.pid'

/**
 * Copies the database of the server that has `dataDir` open into its subfolder `copy`, and opens the copy. Closing it
 * removes the files.
 * @throws NoServer; FolderInUse if another command has such a copy; Error if the disk lacks the space
 */
export async function openCopy(dataDir: string, schema: string): Promise<Database> {
  const folder = join(dataDir, 'copy')
  const lock = await lockFolder(folder).catch((error: unknown) => {
    if (!(error instanceof FolderInUse)) throw error
    throw new FolderInUse(`Another command copies the database to ${folder}: repeat this one after its end`)
  })
  const source = join(dataDir, 'postgres')
  const target = join(folder, 'postgres')
  const remove = () => {
    rmSync(target, { recursive: true, force: true })
    lock.release()
  }
  try {
    // The one of a command that was killed.
    rmSync(target, { recursive: true, force: true })
    await checkSpace(source)
    await ServerSession.use(dataDir, async (session) => {
      await session.request({ kind: 'open', schema })
      await session.request({ kind: 'startCopy' })
      await copyFolder(source, target)
      const [stopped] = await session.request({ kind: 'stopCopy' })
      const label = String(stopped?.labelfile)
      const first = /\(file ([0-9A-F]{24})\)/.exec(label)?.[1] ?? ''
      await copyLog(join(source, LOG_FOLDER), join(target, LOG_FOLDER), first)
      await writeFile(join(target, 'backup_label'), label)
    })
    return createEmbedded(await startCopy(target, schema), schema, { onClose: remove })
  } catch (error) {
    remove()
    throw error
  }
}

/** @throws Error if a copy would fill the disk, on which the server writes too */
async function checkSpace(source: string): Promise<void> {
  let size = 0
  for (const entry of await readdir(source, { recursive: true, withFileTypes: true }))
    size += entry.isFile() ? await readSize(join(entry.parentPath, entry.name)) : 0
  const { bavail, bsize } = await statfs(source)
  if (bavail * bsize < 2 * size)
    throw new Error(
      `A copy of the database is made beside it, and the disk has less free space than twice its ${Math.ceil(size / 1_000_000)} MB`,
    )
}

const readSize = (file: string): Promise<number> =>
  ignoreAbsence(stat(file).then(({ size }) => size)).then((size) => size ?? 0)

/** Copies a folder with all its files, except those of the log. */
async function copyFolder(source: string, target: string): Promise<void> {
  createFolder(target)
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const [from, to] = [join(source, entry.name), join(target, entry.name)]
    if (entry.isDirectory()) await copyFolder(from, to)
    else if (entry.name !== PID_FILE && basename(source) !== LOG_FOLDER)
      await ignoreAbsence(copyFile(from, to, constants.COPYFILE_FICLONE))
  }
}

/** Copies the files of the log from the one with this name on. Their names have the order of their contents. */
async function copyLog(source: string, target: string, first: string): Promise<void> {
  for (const name of await readdir(source))
    if (LOG_FILE.test(name) && name >= first)
      await copyFile(join(source, name), join(target, name), constants.COPYFILE_FICLONE)
}

/** Resolves for a file that the server has removed: the log has what happened. */
const ignoreAbsence = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (getErrorCode(error) !== 'ENOENT') throw error
    return undefined
  })
