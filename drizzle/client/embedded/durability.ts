/**
 * PGlite's folder on disk, made to survive a power cut: by itself, PGlite never syncs a file.
 *
 * This leans on the insides of PGlite 0.5.16 (the version is pinned): its files are Emscripten's NODEFS streams,
 * whose `fsync` operation is called when there is one. test/embedded.test.ts counts that it is.
 */
import fs from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'

/** What PGlite starts PostgreSQL with, less `-F`, which is "no fsync". */
export const DURABLE_PARAMS = [
  ...PGlite.defaultStartParams.filter((param) => param !== '-F'),
  ...['fsync=on', 'synchronous_commit=on', 'full_page_writes=on', 'wal_sync_method=fsync'].flatMap((set) => [
    '-c',
    set,
  ]),
]

/** WASI's number for an I/O error. PostgreSQL stops on it, as it must: what was written is in doubt. */
const EIO = 29

interface Stream {
  /** The file descriptor of Node; a folder has none. */
  nfd?: number
  node: object
}

export class DurableFS extends NodeFS {
  override async init(...[pg, options]: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(pg, options)
    const addFsync: NonNullable<typeof emscriptenOpts.preRun>[number] = ({ NODEFS }) => {
      const pathOf: unknown = Reflect.get(NODEFS, 'realPath')
      const operations: unknown = Reflect.get(NODEFS, 'stream_ops')
      if (typeof pathOf !== 'function' || typeof operations !== 'object' || operations === null)
        throw new Error('This version of PGlite keeps its files in another way: durable.ts does not know it')
      Object.assign(operations, {
        fsync(stream: Stream): number {
          try {
            if (stream.nfd === undefined) syncFolder(String(pathOf(stream.node)))
            else fs.fsyncSync(stream.nfd)
            return 0
          } catch {
            return EIO
          }
        },
      })
    }
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addFsync] } }
  }
}

/** Makes all that stands below `folder` durable, itself included. */
export function syncTree(folder: string): void {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) syncTree(path)
    else syncPath(path, 'r+')
  }
  syncFolder(folder)
}

/** Makes the names in a folder durable. Windows has no such call, and needs none: NTFS journals names. */
export function syncFolder(path: string): void {
  if (process.platform !== 'win32') syncPath(path, 'r')
}

function syncPath(path: string, flags: string): void {
  const fd = fs.openSync(path, flags)
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}
