/** The database on PGlite: one connection, one folder, one statement at a time. */
import { Semaphore, type SemaphoreOptions } from '../../lib/semaphore.ts'
import { publishWait } from '../channels.ts'
import { createDatabase } from '../database.ts'
import { PoolExhausted } from '../errors.ts'
import { retry } from '../retry.ts'
import { DEFAULT_SCHEMA } from '../schema.ts'
import { createPing } from '../server/ping.ts'
import type { Database, DatabaseClient } from '../types.ts'
import { EmbeddedConnection } from './connection.ts'
import { type Engine, startFolder, startMemory } from './engine.ts'
import { lockFolder } from './folder-lock.ts'

interface EmbeddedOptions extends SemaphoreOptions {
  /** The data folder; the database is in its subfolder `postgres`. If absent, the data is in memory only. */
  dataDir?: string | undefined
  /** The schema of the tables, default `public`. */
  schema?: string | undefined
  /** A dump of PGlite that is loaded if there is no database yet. */
  loadFrom?: Blob | File | undefined
}

/** Time per event loop iteration in which statements are started. They run on this thread and block other requests. */
const TIME_SLICE_MS = 5

/**
 * Opens the embedded database, and creates it if there is none. There is no statement timeout: a statement runs on
 * the thread that the timer would need. Only the wait for the connection has a limit.
 * @throws FolderInUse if another process has the folder; Error if the folder is of another version of PostgreSQL
 */
export async function openEmbedded(options: EmbeddedOptions = {}): Promise<Database> {
  const { dataDir, schema = DEFAULT_SCHEMA, loadFrom, ...limits } = options
  const lock = dataDir === undefined ? undefined : await lockFolder(dataDir)
  const start = dataDir === undefined ? startMemory : startFolder.bind(undefined, dataDir)
  const engine = await start({ schema, loadFrom }).catch((error) => {
    lock?.release()
    throw error
  })
  return createEmbedded(engine, schema, { ...limits, onClose: () => lock?.release() })
}

/** Returns the database of an engine. */
export function createEmbedded(
  engine: Engine,
  schema: string,
  { onClose, ...limits }: SemaphoreOptions & { onClose: () => void },
): Database {
  const connection = new EmbeddedConnection(engine)
  const semaphore = new Semaphore([connection], {
    timeSlice: TIME_SLICE_MS,
    onWait: publishWait,
    createError: (reason) => new PoolExhausted(`The database connection is not available: ${reason}`),
    ...limits,
  })
  const transaction: DatabaseClient['transaction'] = (work, txOptions) =>
    semaphore.run(async (held) => {
      try {
        return await held.transaction(work, txOptions, () => semaphore.waitedShare)
      } finally {
        if (txOptions?.isYielding) semaphore.skipElapsed()
      }
    })
  let closing: Promise<void> | undefined
  const close = async () => {
    await semaphore.close()
    // A stopped engine must not write a checkpoint: after a failed sync it is unknown what the disk holds.
    if (!connection.fatalError) await engine.pg.close()
    onClose()
  }
  return createDatabase({
    kind: 'embedded',
    schema,
    run(...statement) {
      const work = (held: EmbeddedConnection) => held.run(...statement)
      return semaphore.run(work).catch((error) => retry(error, () => semaphore.run(work)))
    },
    transaction: (work, txOptions) =>
      transaction(work, txOptions).catch((error) =>
        retry(error, () => transaction(work, txOptions), txOptions?.maxRetries),
      ),
    ping: createPing(() => connection.ping()),
    getLoad: semaphore.getLoad.bind(semaphore),
    estimateWait: semaphore.estimateWait.bind(semaphore),
    close() {
      closing ??= close()
      return closing
    },
  })
}
