/** PGlite as the house's database: one connection, one folder, one statement at a time. */

import { Gate, type GateOptions } from '../../../lib/semaphore.ts'
import { tellWait } from '../channels.ts'
import { bare, DatabaseUnavailable, translate } from '../errors.ts'
import { retried } from '../retry.ts'
import { createPing } from '../server/ping.ts'
import { within } from '../transaction.ts'
import type { Connection, Database, Param, Row, RunOptions } from '../types.ts'
import { texts } from '../values.ts'
import { type Engine, startFolder, startMemory } from './engine.ts'
import { lockFolder } from './folder-lock.ts'
import { Statements } from './prepared-statements.ts'

export interface EmbeddedOptions extends GateOptions {
  /** The data folder; the database stands in its subfolder `postgres`. Absent: in memory, gone with `close`. */
  dataDir?: string | undefined
  /** A dump of PGlite to begin with, where there is no database yet. */
  loadFrom?: Blob | File | undefined
}

/** Milliseconds of a turn of the event loop that statements may take: they are run on its thread. */
const SLICE = 5

/**
 * Opens, and creates where there is none, the embedded database. A statement cannot be timed out: it runs on
 * the thread that a timer would need. Only waiting for one's turn has a limit.
 * @throws FolderInUse when another process has the folder, Error when it is of another version of PostgreSQL
 */
export async function openEmbedded(options: EmbeddedOptions = {}): Promise<Database> {
  const { dataDir, loadFrom, ...limits } = options
  if (dataDir === undefined) return serve(await startMemory(loadFrom), limits, () => undefined)
  const lock = await lockFolder(dataDir)
  try {
    return serve(await startFolder(dataDir, loadFrom), limits, lock.release)
  } catch (error) {
    lock.release()
    throw error
  }
}

function serve({ pg, lastWords }: Engine, limits: GateOptions, release: () => void): Database {
  const statements = new Statements(pg)
  const gate = new Gate([statements], { slice: SLICE, onWait: tellWait, ...limits })
  let broken: DatabaseUnavailable | undefined
  let closing: Promise<void> | undefined

  /** What is no answer of PostgreSQL, or its last one, is its end: a failed sync, memory gone. */
  function judge(error: unknown): unknown {
    const known = translate(error)
    const severity: unknown = error instanceof Error ? Reflect.get(error, 'severity') : undefined
    if (known !== error && severity !== 'FATAL' && severity !== 'PANIC') return known
    broken ??= new DatabaseUnavailable(
      `The embedded database has stopped; restart the server. ${lastWords()}`,
      {
        cause: error instanceof Error ? bare(error) : error,
      },
    )
    return broken
  }
  async function query(
    text: string,
    params: readonly Param[] = [],
    options: RunOptions = {},
  ): Promise<Row[]> {
    const values = texts(params)
    if (broken) throw broken
    try {
      return await statements.run(text, values, options)
    } catch (error) {
      throw judge(error)
    }
  }
  async function transaction<T>(work: (tx: Connection) => Promise<T>): Promise<T> {
    if (broken) throw broken
    let failure: { error: unknown } | undefined
    try {
      return await pg.transaction(() =>
        within(query, work).catch((error: unknown) => {
          failure = { error }
          throw error
        }),
      )
    } catch (error) {
      throw failure ? failure.error : judge(error)
    }
  }
  /** By PGlite's own queue: past the gate, but not into the midst of a transaction. */
  async function ask(): Promise<void> {
    if (broken) throw broken
    await pg.query('select 1').catch((error: unknown) => Promise.reject(judge(error)))
  }
  async function close(): Promise<void> {
    await gate.close()
    // Stopped, it must not write its farewell: after a failed sync nobody knows what the disk holds.
    if (!broken) await pg.close()
    release()
  }
  return {
    kind: 'embedded',
    run: (...statement) => retried(() => gate.run(() => query(...statement))),
    transaction: (work) => retried(() => gate.run(() => transaction(work))),
    ping: createPing(ask),
    load: () => gate.load(),
    delay: () => gate.delay,
    close() {
      closing ??= close()
      return closing
    },
  }
}
