/** Reads a database for a backup or a copy: from one snapshot, while servers may go on writing. */
import { type Contents, countRows, readContents } from '../../../drizzle/backup/contents.ts'
import { readRows } from '../../../drizzle/backup/rows.ts'
import type { Connection, Database } from '../../../drizzle/client/types.ts'
import type { Config } from '../../config.ts'
import { ensureFolder, withOpenDatabase } from '../database.ts'

export interface Snapshot extends Contents {
  kind: Database['kind']
  /** The rows of each table, by its name. */
  counts: ReadonlyMap<string, number>
  readRows(): ReturnType<typeof readRows>
}

/**
 * Opens the configured database as it is, without applying migrations, and calls `work` with a snapshot of it.
 * `work` is called again if the transaction has to be repeated (on a standby).
 * @throws Error if there is no database, or it has no tables
 */
export async function withSnapshot<T>(config: Config, work: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  ensureFolder(config)
  const readSnapshot = async (tx: Connection, { kind, schema }: Database): Promise<Snapshot> => {
    // The server otherwise closes a connection whose transaction waits for the disk or for another database.
    await tx.run('set local idle_in_transaction_session_timeout = 0')
    const contents = await readContents(tx, schema)
    if (contents.migrations.length === 0)
      throw new Error(
        'The database has no tables of this service: check DATABASE_URL, DATABASE_SCHEMA and DATA_DIR',
      )
    const counts = await countRows(tx, contents.tables)
    return { ...contents, kind, counts, readRows: () => readRows(tx, contents.tables) }
  }
  return withOpenDatabase(config, (database) =>
    database.transaction(async (tx) => work(await readSnapshot(tx, database)), {
      statementTimeout: 0,
      isSnapshot: true,
    }),
  )
}

export const sumCounts = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0)
