/** PostgreSQL inside this process: how PGlite is started, in memory or on a folder, and how it stops. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite, type PGliteOptions } from '@electric-sql/pglite'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { PARSERS, PLAIN } from '../values.ts'
import { DURABLE_PARAMS, DurableFS, syncFolder, syncTree } from './durability.ts'

export interface Engine {
  pg: PGlite
  /** The last FATAL or PANIC it uttered, or what else ended it, or nothing. */
  lastWords(): string
}

/** The PostgreSQL inside PGlite 0.5.16. */
export const EMBEDDED_VERSION = '18'

/** How PGlite's build of PostgreSQL reports an ERROR, which leaves it whole. */
const LONGJMP = 100

const SESSION = ['TimeZone=UTC', 'DateStyle=ISO,MDY', 'IntervalStyle=postgres'].flatMap((set) => ['-c', set])

/** In memory, from a dump if there is one. */
export function startMemory(loadFrom?: Blob | File): Promise<Engine> {
  return start({
    startParams: [...PGlite.defaultStartParams, ...SESSION],
    ...(loadFrom && { loadDataDir: loadFrom }),
  })
}

/**
 * On `dataDir/postgres`, made if absent, from a dump if there is one. The folder must be ours alone (`lock.ts`).
 * @throws Error when it is of another version, or does not start
 */
export async function startFolder(dataDir: string, loadFrom?: Blob | File): Promise<Engine> {
  const folder = join(dataDir, 'postgres')
  if (!existsSync(folder)) {
    // Made aside, synced, then named: a database that is there is whole, whatever happened meanwhile.
    const draft = join(dataDir, 'postgres.new')
    rmSync(draft, { recursive: true, force: true })
    const { pg } = await startOn(draft, loadFrom)
    await pg.close()
    syncTree(draft)
    renameSync(draft, folder)
    syncFolder(dataDir)
  }
  checkVersion(folder)
  return startOn(folder)
}

function checkVersion(folder: string): void {
  const file = join(folder, 'PG_VERSION')
  if (!existsSync(file)) throw new Error(`The folder ${folder} holds no database of this server`)
  const version = readFileSync(file, 'utf8').trim()
  if (version !== EMBEDDED_VERSION)
    throw new Error(
      `The database in ${folder} is of PostgreSQL ${version}, this server's of ${EMBEDDED_VERSION}:` +
        ' dump it with the server that made it, and load the dump into a new folder',
    )
}

function startOn(folder: string, loadFrom?: Blob | File): Promise<Engine> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const fs = new DurableFS(folder)
  return start({
    fs,
    startParams: [...DURABLE_PARAMS, ...SESSION],
    ...(loadFrom && { loadDataDir: loadFrom }),
  })
}

async function start(options: PGliteOptions): Promise<Engine> {
  let words = ''
  try {
    const pg = await PGlite.create({
      ...options,
      extensions: { pg_trgm },
      parsers: { ...PARSERS },
      serializers: Object.fromEntries(PLAIN.map((oid) => [oid, String])),
      onStderr(line) {
        words = /(?:FATAL|PANIC): .*/.exec(line)?.[0] ?? words
        return false
      },
    })
    stopAtPanic(pg, (why) => {
      words ||= why
    })
    return { pg, lastWords: () => words }
  } catch (cause) {
    throw new Error(`The embedded database did not start. ${words}`, { cause })
  }
}

/**
 * Makes a PANIC the end, as it is for a server. PGlite catches what ends PostgreSQL's main loop and runs it again:
 * for ever, when a COMMIT finds the disk full. A longjmp alone is an ordinary error; a trap of WebAssembly, as when
 * the stack overflows, leaves nobody knows what behind.
 */
function stopAtPanic(pg: PGlite, onTrap: (why: string) => void): void {
  const module = pg.Module
  const once = module._PostgresMainLoopOnce
  const stop = (): never => {
    throw new Error('PostgreSQL has stopped')
  }
  module._PostgresMainLoopOnce = () => {
    try {
      once()
    } catch (error) {
      const status: unknown = error instanceof Object ? Reflect.get(error, 'status') : undefined
      // PGlite calls this next, outside of what it catches.
      if (status !== LONGJMP) Object.assign(module, { stackRestore: stop, _PostgresMainLoopOnce: stop })
      if (status === undefined && error instanceof Error) onTrap(`${error.name}: ${error.message}`)
      throw error
    }
  }
}
