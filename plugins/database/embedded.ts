/** PGlite as the house's database: PostgreSQL inside this process, one connection, one folder, one statement at a time. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite, type PGliteOptions } from '@electric-sql/pglite'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { DURABLE_PARAMS, DurableFS, syncFolder, syncTree } from './durable.ts'
import { bare, DatabaseUnavailable, translate } from './errors.ts'
import { Gate, type GateOptions } from './gate.ts'
import { lockFolder } from './lock.ts'
import { createPing } from './ping.ts'
import { within } from './transaction.ts'
import type { Database, Param, Row } from './types.ts'
import { PARSERS, PLAIN, texts } from './values.ts'

export interface EmbeddedOptions extends GateOptions {
  /** The data folder; the database stands in its subfolder `postgres`. Absent: in memory, gone with `close`. */
  dataDir?: string | undefined
  /** A dump of PGlite to begin with, where there is no database yet. */
  loadFrom?: Blob | File | undefined
}

/** The PostgreSQL inside PGlite 0.5.16. */
export const EMBEDDED_VERSION = '18'

const COMMON: PGliteOptions = {
  extensions: { pg_trgm },
  parsers: { ...PARSERS },
  serializers: Object.fromEntries(PLAIN.map((oid) => [oid, String])),
}
const SESSION = ['TimeZone=UTC', 'DateStyle=ISO,MDY', 'IntervalStyle=postgres'].flatMap((set) => ['-c', set])

/**
 * Opens, and creates where there is none, the embedded database. A statement cannot be timed out: it runs on
 * the thread that a timer would need. Only waiting for one's turn has a limit.
 * @throws FolderInUse when another process has the folder, Error when it is of another version of PostgreSQL
 */
export async function openEmbedded(options: EmbeddedOptions = {}): Promise<Database> {
  const { dataDir, loadFrom, ...limits } = options
  if (dataDir === undefined) return serve(await openMemory(loadFrom), limits, () => undefined)
  const lock = await lockFolder(dataDir)
  try {
    return serve(await openFolder(dataDir, loadFrom), limits, lock.release)
  } catch (error) {
    lock.release()
    throw error
  }
}

function openMemory(loadFrom: Blob | File | undefined): Promise<PGlite> {
  return PGlite.create({
    ...COMMON,
    startParams: [...PGlite.defaultStartParams, ...SESSION],
    ...(loadFrom && { loadDataDir: loadFrom }),
  })
}

async function openFolder(dataDir: string, loadFrom: Blob | File | undefined): Promise<PGlite> {
  const folder = join(dataDir, 'postgres')
  if (!existsSync(folder)) {
    // Made aside, synced, then named: a database that is there is whole, whatever happened meanwhile.
    const draft = join(dataDir, 'postgres.new')
    rmSync(draft, { recursive: true, force: true })
    const first = await start(draft, loadFrom)
    await first.close()
    syncTree(draft)
    renameSync(draft, folder)
    syncFolder(dataDir)
  }
  const file = join(folder, 'PG_VERSION')
  const version = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
  if (version !== EMBEDDED_VERSION)
    throw new Error(
      version === undefined
        ? `The folder ${folder} holds no database of this server`
        : `The database in ${folder} is of PostgreSQL ${version}, this server's of ${EMBEDDED_VERSION}:` +
            ' dump it with the server that made it, and load the dump into a new folder',
    )
  return start(folder)
}

function start(folder: string, loadFrom?: Blob | File): Promise<PGlite> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return PGlite.create({
    ...COMMON,
    fs: new DurableFS(folder),
    startParams: [...DURABLE_PARAMS, ...SESSION],
    ...(loadFrom && { loadDataDir: loadFrom }),
  })
}

type Runner = Pick<PGlite, 'query'>

function serve(pg: PGlite, limits: GateOptions, release: () => void): Database {
  const gate = new Gate([pg], limits)
  let broken: DatabaseUnavailable | undefined

  /** What is no answer of PostgreSQL, or its last one, is its end: a failed sync, memory gone. */
  function judge(error: unknown): unknown {
    const known = translate(error)
    const severity: unknown = error instanceof Error ? Reflect.get(error, 'severity') : undefined
    if (known !== error && severity !== 'FATAL' && severity !== 'PANIC') return known
    broken ??= new DatabaseUnavailable('The embedded database has stopped; restart the server', {
      cause: error instanceof Error ? bare(error) : error,
    })
    return broken
  }
  async function query(runner: Runner, text: string, params: readonly Param[] = []): Promise<Row[]> {
    const values = texts(params)
    if (broken) throw broken
    try {
      const { rows } = await runner.query<Row>(text, values)
      return rows
    } catch (error) {
      throw judge(error)
    }
  }
  return {
    kind: 'embedded',
    run: (text, params) => gate.run(() => query(pg, text, params)),
    transaction: (work) =>
      gate.run(async () => {
        let failure: { error: unknown } | undefined
        try {
          return await pg.transaction((tx) =>
            within((text, params) => query(tx, text, params), work).catch((error: unknown) => {
              failure = { error }
              throw error
            }),
          )
        } catch (error) {
          throw failure ? failure.error : judge(error)
        }
      }),
    ping: createPing(() => query(pg, 'select 1')),
    async close() {
      await gate.close()
      // Stopped, it must not write its farewell: after a failed sync nobody knows what the disk holds.
      if (!broken) await pg.close()
      release()
    },
  }
}
