/** Reads a database for a backup or a copy, and loads rows into an empty database. */

import type { Connection, Database } from '@resource-api/database'
import {
  type Batch,
  type Contents,
  checkContents,
  countAllRows,
  countRows,
  loadDatabase,
  readContents,
  readRows,
} from '@resource-api/database/backup'
import type { Config } from '@resource-api/http/config'
import { ensureFolder, openAlone, openSnapshot, withOpenDatabase } from '../database.ts'
import { withProgress } from '../progress.ts'

export interface Snapshot extends Omit<Contents, 'tables'> {
  kind: Database['kind']
  tables: { name: string; columns: string[]; rows: number }[]
  readRows(): ReturnType<typeof readRows>
}

/**
 * Opens the configured database as it is, without applying migrations, and calls `work` with one snapshot of it, while
 * servers may go on writing. `work` is called again if the transaction has to be repeated (on a standby).
 * @throws Error if there is no database, or it has no tables
 */
export async function withSnapshot<T>(config: Config, work: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  ensureFolder(config)
  const read = (database: Database) =>
    database.transaction(
      async (tx) => {
        // The server otherwise closes a connection whose transaction waits for the disk or for another database.
        await tx.run('set local idle_in_transaction_session_timeout = 0')
        // An error instead of a part of the rows, if a policy hides rows from the role.
        await tx.run('set local row_security = off')
        const contents = await readContents(tx, database.schema)
        checkContents(contents)
        const counts = await countRows(tx, contents.tables)
        const tables = contents.tables.map(({ name, columns }) => ({
          name,
          columns: columns.map((column) => column.name),
          rows: counts.get(name) ?? 0,
        }))
        return work({
          ...contents,
          kind: database.kind,
          tables,
          readRows: () => readRows(tx, contents.tables),
        })
      },
      { statementTimeout: 0, isSnapshot: true },
    )
  return withOpenDatabase(config, read, openSnapshot)
}

export const formatRows = (count: number): string => `${count.toLocaleString('en')} rows`

export const sumRows = (tables: Snapshot['tables']): number => tables.reduce((sum, { rows }) => sum + rows, 0)

/** What was loaded, and found equal to its source. */
export interface LoadResult {
  rows: number
  /** Tables of the source that are none of this service. */
  skipped: string[]
  /** Migrations that the source lacked. */
  applied: string[]
}

/** Loads rows into the configured database, and compares the two. */
export async function loadRows(
  config: Config,
  source: Pick<Snapshot, 'migrations' | 'sequences' | 'tables'> & { readRows(): AsyncIterable<Batch> },
  beforeCommit?: (tx: Connection) => Promise<void>,
): Promise<LoadResult> {
  const { checksums, skipped, applied } = await withProgress('rows', sumRows(source.tables), (onRows) =>
    withOpenDatabase(
      config,
      (database) => loadDatabase(database, source, { onRows, ...(beforeCommit && { beforeCommit }) }),
      openAlone,
    ),
  )
  return { rows: countAllRows(checksums), skipped, applied }
}

/**
 * Describes a result in lines.
 * @param texts parts of the sentences, such as `Copied`, `to HOST`, `the two databases`
 */
export const describeLoad = (
  { rows, skipped, applied }: LoadResult,
  [verb, where, compared]: readonly [string, string, string],
): string[] => [
  `${verb} ${formatRows(rows)} ${where}`,
  `Compared ${compared}: they are equal`,
  ...skipped.map((name) => `Not ${verb.toLowerCase()}: ${name}, which is not a table of this service`),
  ...applied.map((name) => `Applied ${name}`),
]
