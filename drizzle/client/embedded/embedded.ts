/** The database on PGlite: one connection, one folder, one statement at a time. */

import { Semaphore, type SemaphoreOptions } from '../../../lib/semaphore.ts'
import { publishWait } from '../channels.ts'
import { createDatabase } from '../database.ts'
import { DatabaseUnavailable, redactError, toDatabaseError } from '../errors.ts'
import { withRetries } from '../retry.ts'
import { DEFAULT_SCHEMA } from '../schema.ts'
import { createPing } from '../server/ping.ts'
import { runTransactionBody } from '../transaction.ts'
import type { Database, Param, Queryable, Row, RunOptions } from '../types.ts'
import { toTextValues } from '../values.ts'
import { type Engine, startFolder, startMemory } from './engine.ts'
import { lockFolder } from './folder-lock.ts'
import { PreparedStatements } from './prepared-statements.ts'

interface EmbeddedOptions extends SemaphoreOptions {
  /**
   * The data folder; the database is in its subfolder `postgres`. If absent, the data is in memory and lost on
   * `close`.
   */
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
  const source = { schema, loadFrom }
  if (dataDir === undefined) return createClient(await startMemory(source), schema, limits, () => undefined)
  const lock = await lockFolder(dataDir)
  try {
    return createClient(await startFolder(dataDir, source), schema, limits, lock.release)
  } catch (error) {
    lock.release()
    throw error
  }
}

function createClient(
  { pg, getLastError }: Engine,
  schema: string,
  limits: SemaphoreOptions,
  releaseFolder: () => void,
): Database {
  const statements = new PreparedStatements(pg)
  const semaphore = new Semaphore([statements], {
    timeSlice: TIME_SLICE_MS,
    onWait: publishWait,
    createError: (reason) => new DatabaseUnavailable(`The database connection is not available: ${reason}`),
    ...limits,
  })
  let fatalError: DatabaseUnavailable | undefined
  let closing: Promise<void> | undefined

  /**
   * Returns the error for the caller. All but an ordinary ERROR of PostgreSQL stops the engine: a failed sync, lack
   * of memory.
   */
  function handleError(error: unknown): unknown {
    const databaseError = toDatabaseError(error)
    const severity: unknown = error instanceof Error ? Reflect.get(error, 'severity') : undefined
    if (databaseError !== error && severity !== 'FATAL' && severity !== 'PANIC') return databaseError
    fatalError ??= new DatabaseUnavailable(
      `The embedded database has stopped; restart the server. ${getLastError()}`,
      {
        cause: error instanceof Error ? redactError(error) : error,
      },
    )
    return fatalError
  }
  async function query(
    text: string,
    params: readonly Param[] = [],
    options: RunOptions = {},
  ): Promise<Row[]> {
    const values = toTextValues(params)
    if (fatalError) throw fatalError
    try {
      return await statements.run(text, values, options)
    } catch (error) {
      throw handleError(error)
    }
  }
  async function transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
    if (fatalError) throw fatalError
    let failure: { error: unknown } | undefined
    try {
      return await pg.transaction(() =>
        runTransactionBody(query, work).catch((error: unknown) => {
          failure = { error }
          throw error
        }),
      )
    } catch (error) {
      throw failure ? failure.error : handleError(error)
    }
  }
  /**
   * Uses PGlite's own queue instead of the semaphore: it does not wait behind requests, only for the end of a
   * transaction.
   */
  async function pingEngine(): Promise<void> {
    if (fatalError) throw fatalError
    await pg.query('select 1').catch((error: unknown) => Promise.reject(handleError(error)))
  }
  async function close(): Promise<void> {
    await semaphore.close()
    // A stopped engine must not write a checkpoint: after a failed sync it is unknown what the disk holds.
    if (!fatalError) await pg.close()
    releaseFolder()
  }
  return createDatabase({
    kind: 'embedded',
    schema,
    run: (...statement) => withRetries(() => semaphore.run(() => query(...statement))),
    transaction: (work) => withRetries(() => semaphore.run(() => transaction(work))),
    ping: createPing(pingEngine),
    getLoad: () => semaphore.getLoad(),
    estimateWait: () => semaphore.estimateWait(),
    close() {
      closing ??= close()
      return closing
    },
  })
}
