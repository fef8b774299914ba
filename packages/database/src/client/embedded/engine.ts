/** Starts PGlite, the PostgreSQL in this process, in memory or on a folder, and stops it after a fatal error. */
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite, type PGliteOptions } from '@electric-sql/pglite'
import { btree_gist } from '@electric-sql/pglite/contrib/btree_gist'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { identity } from '../../identity.ts'
import { createFolder } from '../../lib/create-folder.ts'
import { syncFolder, syncTree } from '../../lib/sync-folder.ts'
import { getSearchPath } from '../schema.ts'
import { PARSERS, PRESERIALIZED_TYPES } from '../values.ts'
import { DURABLE_PARAMS, DurableFS } from './durability.ts'
import { unpackTemplate } from './template.ts'

export interface Engine {
  pg: PGlite
  /** Returns the last FATAL or PANIC message, or another error that stopped the engine, or an empty text. */
  getLastError(): string
}

/** The major version of PostgreSQL in PGlite 0.5.16. */
export const EMBEDDED_VERSION = '18'

/** The status with which PGlite's build of PostgreSQL leaves its main loop on an ERROR. The engine stays usable. */
const LONGJMP_STATUS = 100

/**
 * PostgreSQL clears its buffers when it starts, so that all of them are resident: with the default of 128 MB, 140 MB more
 * and 75 ms of CPU. The operating system caches the files of a folder, and in memory the buffers are second copies:
 * with 43 MB of demo data, the CPU time of reads and writes differed by less than two runs of the same size did (10 %).
 */
const SHARED_BUFFERS = 'shared_buffers=8MB'

/** Files of the log that a checkpoint keeps for later use: with the default of 1 GB, up to that size after a restore. */
const MAX_WAL_SIZE = 'max_wal_size=128MB'

const SETTINGS = ['TimeZone=UTC', 'DateStyle=ISO,MDY', 'IntervalStyle=postgres', SHARED_BUFFERS, MAX_WAL_SIZE]

interface EngineSource {
  /** The schema of the tables. */
  schema: string
  /** A dump of PGlite that is loaded if there is no database yet. */
  loadFrom: Blob | File | undefined
}

/** Starts an engine in memory, from a dump if one is given. */
export const startMemory = (source: EngineSource): Promise<Engine> =>
  start(source, { startParams: PGlite.defaultStartParams })

/**
 * Starts an engine on `dataDir/postgres`, created if absent, from a dump if one is given. The caller must hold the lock
 * of `dataDir` (`folder-lock.ts`).
 * @throws Error if the folder is of another version of PostgreSQL, or the engine does not start
 */
export async function startFolder(dataDir: string, source: EngineSource): Promise<Engine> {
  const folder = join(dataDir, 'postgres')
  if (!existsSync(folder)) {
    // Created under another name, synced, then renamed: a folder named `postgres` is complete even after a crash.
    const draft = join(dataDir, 'postgres.new')
    rmSync(draft, { recursive: true, force: true })
    if (source.loadFrom || !unpackTemplate(draft)) {
      const { pg } = await startOn(draft, source)
      await pg.close()
    }
    syncTree(draft)
    renameSync(draft, folder)
    syncFolder(dataDir)
  }
  checkVersion(folder)
  return startOn(folder, { ...source, loadFrom: undefined })
}

/** Starts an engine on a copy of a database, which is removed afterwards: without syncing it to disk. */
export const startCopy = (folder: string, schema: string): Promise<Engine> =>
  start({ schema, loadFrom: undefined }, { dataDir: folder, startParams: PGlite.defaultStartParams })

function checkVersion(folder: string): void {
  const file = join(folder, 'PG_VERSION')
  if (!existsSync(file))
    throw new Error(`The folder ${folder} holds no database: the file PG_VERSION is missing`)
  const version = readFileSync(file, 'utf8').trim()
  if (version !== EMBEDDED_VERSION)
    throw new Error(
      `The database in ${folder} is of PostgreSQL ${version}, but this release has PostgreSQL ${EMBEDDED_VERSION}:` +
        ` back it up with the release that created it (${identity.program} backup), and restore that file into a new DATA_DIR`,
    )
}

function startOn(folder: string, source: EngineSource): Promise<Engine> {
  createFolder(folder)
  return start(source, { fs: new DurableFS(folder), startParams: DURABLE_PARAMS })
}

async function start({ schema, loadFrom }: EngineSource, options: PGliteOptions): Promise<Engine> {
  const searchPath = getSearchPath(schema)
  const settings = searchPath === undefined ? SETTINGS : [...SETTINGS, `search_path=${searchPath}`]
  let lastError = ''
  try {
    const pg = await PGlite.create({
      ...options,
      ...(loadFrom && { loadDataDir: loadFrom }),
      startParams: [...(options.startParams ?? []), ...settings.flatMap((setting) => ['-c', setting])],
      // A migration of one's own creates `btree_gist`, for exclusion constraints over ids and ranges.
      extensions: { pg_trgm, btree_gist },
      parsers: { ...PARSERS },
      serializers: Object.fromEntries(PRESERIALIZED_TYPES.map((oid) => [oid, String])),
      onStderr(line) {
        lastError = /(?:FATAL|PANIC): .*/.exec(line)?.[0] ?? lastError
        return false
      },
    })
    stopAtPanic(pg, (message) => {
      lastError ||= message
    })
    return { pg, getLastError: () => lastError }
  } catch (cause) {
    throw new Error(`The embedded database did not start. ${lastError}`, { cause })
  }
}

/**
 * Stops the engine after a PANIC, as a server does. PGlite catches all that ends PostgreSQL's main loop and runs the
 * loop again: without end, if COMMIT finds the disk full. Only a longjmp is an ordinary error. After a trap of
 * WebAssembly, such as a stack overflow, the state of the engine is unknown.
 */
function stopAtPanic(pg: PGlite, onTrap: (message: string) => void): void {
  const module = pg.Module
  const runMainLoopOnce = module._PostgresMainLoopOnce
  const stop = (): never => {
    throw new Error('PostgreSQL has stopped')
  }
  module._PostgresMainLoopOnce = () => {
    try {
      runMainLoopOnce()
    } catch (error) {
      const status: unknown = error instanceof Object ? Reflect.get(error, 'status') : undefined
      // PGlite calls `stackRestore` next, outside of its own try block.
      if (status !== LONGJMP_STATUS)
        Object.assign(module, { stackRestore: stop, _PostgresMainLoopOnce: stop })
      if (status === undefined && error instanceof Error) onTrap(`${error.name}: ${error.message}`)
      throw error
    }
  }
}
