/**
 * Makes PGlite's data folder survive a power failure. PGlite alone never syncs a file to disk.
 *
 * This depends on internals of PGlite 0.5.16 (the version is pinned): its files are Emscripten's NODEFS streams,
 * whose `fsync` operation is called if it exists. test/embedded.extended.test.ts counts the calls.
 */
import fs from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'
import { syncFolder } from '../../lib/sync-folder.ts'

/** PGlite's arguments for PostgreSQL without `-F`, which turns fsync off. */
export const DURABLE_PARAMS = [
  ...PGlite.defaultStartParams.filter((param) => param !== '-F'),
  ...['fsync=on', 'synchronous_commit=on', 'full_page_writes=on', 'wal_sync_method=fsync'].flatMap(
    (setting) => ['-c', setting],
  ),
]

/** The error number of WASI for an I/O error. PostgreSQL stops on it: it is unknown what the disk holds. */
const EIO = 29

interface Stream {
  /** The file descriptor of Node.js; a folder has none. */
  nfd?: number
  node: object
}

export class DurableFS extends NodeFS {
  override async init(...[pg, options]: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(pg, options)
    const addFsync: NonNullable<typeof emscriptenOpts.preRun>[number] = ({ NODEFS }) => {
      const getPath: unknown = Reflect.get(NODEFS, 'realPath')
      const operations: unknown = Reflect.get(NODEFS, 'stream_ops')
      if (typeof getPath !== 'function' || typeof operations !== 'object' || operations === null)
        throw new Error('durability.ts does not support the file system of this version of PGlite')
      Object.assign(operations, {
        fsync(stream: Stream): number {
          try {
            if (stream.nfd === undefined) syncFolder(String(getPath(stream.node)))
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
