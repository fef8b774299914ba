/**
 * Keeps the write-ahead log of the embedded database small. Only a process of a PostgreSQL server asks for checkpoints, so
 * PGlite writes one only at its start and end: 50,000 inserted users left 94 MB of log, which a start after a crash replays.
 */
import type { Database } from '../types.ts'

/** Bytes of log after which a checkpoint is due. It takes about 50 ms, in which no request is served. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024

const SELECT_LOG_BYTES = `
  select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes from pg_control_checkpoint()`

/** Returns the bytes of log since the last checkpoint. */
export async function readLogBytes(database: Database): Promise<number> {
  const [row] = await database.run(SELECT_LOG_BYTES)
  return Number(row?.bytes)
}

/**
 * Writes a checkpoint if the log is long.
 * @param isCopied returns whether the files are being copied: the copy needs the log since its start
 */
export async function shortenLog(database: Database, isCopied: () => boolean): Promise<void> {
  if ((await readLogBytes(database)) < MAX_LOG_BYTES || isCopied()) return
  await database.run('checkpoint')
}
