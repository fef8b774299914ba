/** Writes many rows in one transaction, for batches and imports: rows that may be joined, by one statement. */
import type { Connection } from '@resource-api/database'
import { mapInTurns, SHORT_TURN_MS, SqlError, type Transaction } from '@resource-api/database/internal'
import type { Violation } from '@resource-api/http'
import { ApiError, createViolation, type FieldCode, rewriteError } from '@resource-api/http/internal'
import type { Written } from '../response/response-builder.ts'
import type { PreparedColumns, RowWrite, WriteInput, WriteOperation } from './write-operation.ts'

/** One of many writes. */
export interface PlannedWrite {
  operation: WriteOperation
  input: WriteInput
  /** Whether one statement writes the row together with others that follow each other. */
  isJoined: boolean
  /** What `find` of the operation returns, if it is known. */
  found?: unknown
  /** The error of `find`, if it is known. */
  error?: ApiError | undefined
  /** The result of slow work, which is done once, or its error. */
  prepared?: { columns?: PreparedColumns; error?: ApiError }
}

/** Finds the row of a write. @throws ApiError 401, 403, 404 */
export async function findOne(
  connection: Connection,
  { error, found, input, operation }: PlannedWrite,
  isLocking: boolean,
): Promise<unknown> {
  if (error) throw error
  return found ?? operation.find(connection, input, isLocking)
}

/** Does the slow work of a write, unless it is done. */
export async function prepareOne(connection: Connection, write: PlannedWrite, found: unknown) {
  try {
    write.prepared ??= { columns: await write.operation.prepare?.(connection, write.input, found) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    write.prepared = { error }
  }
  return write.prepared
}

/** Returns the first of the writes, with those behind it that are joined with it. */
export function takeJoined<W extends PlannedWrite>(writes: readonly W[], start: number): W[] {
  const first = writes[start]
  const isNext = (write: W) => write.isJoined && first?.isJoined && write.operation === first.operation
  const end = writes.findIndex((write, i) => i > start && !isNext(write))
  return writes.slice(start, end < 0 ? writes.length : end)
}

interface ManyOptions<W> {
  /** Takes the error of a write that fails alone. It throws, unless the writes behind it are tried too. */
  onError(error: unknown, write: W): void
  /** Whether a write that fails alone is undone. */
  goesOn?: boolean
  /** Whether the hooks before the commit run behind each group, for other writes that see what they do. */
  runsHooks?: boolean
}

async function writeGroups<W extends PlannedWrite>(tx: Transaction, writes: readonly W[], runsHooks = false) {
  const toRowWrite = async (write: W): Promise<RowWrite<WriteInput, unknown>> => {
    const found = await findOne(tx, write, true)
    const { columns, error } = await prepareOne(tx, write, found)
    if (error) throw error
    return { input: write.input, found, prepared: columns }
  }
  const written: Written[] = []
  while (written.length < writes.length) {
    const group = takeJoined(writes, written.length)
    const rows = await mapInTurns(group, toRowWrite, SHORT_TURN_MS)
    written.push(...((await group[0]?.operation.write(tx, rows)) ?? []))
    if (runsHooks) await tx.runHooks()
  }
  return written
}

/**
 * Writes rows in their order. If that fails, it is not known which row is at fault: one half is written after the other, down
 * to the row that fails alone.
 * @returns the results of those that are written, in their order
 */
export async function writeMany<W extends PlannedWrite>(
  tx: Transaction,
  writes: readonly W[],
  options: ManyOptions<W>,
): Promise<Written[]> {
  const [first, another] = writes
  if (!first) return []
  const write = () => writeGroups(tx, writes, options.runsHooks)
  try {
    return await (another || options.goesOn ? tx.savepoint(write) : write())
  } catch (error) {
    if (!another) {
      options.onError(error, first)
      return []
    }
    if (!(error instanceof ApiError || error instanceof SqlError)) throw error
  }
  const half = Math.ceil(writes.length / 2)
  const written = await writeMany(tx, writes.slice(0, half), options)
  return [...written, ...(await writeMany(tx, writes.slice(half), options))]
}

/** The codes of an error without fields, by its status. */
const CODES: Readonly<Record<number, FieldCode>> = {
  400: 'INVALID_FORMAT',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
}

/** Returns the violations of an error; one with the field of the write itself if the error names no field. */
export const toOwnViolations = (
  { violations, message, status }: ApiError,
  field: string,
): readonly Violation[] =>
  violations.length > 0 ? violations : [createViolation(field, message, CODES[status] ?? 'INVALID_VALUE')]

/** Returns the error of all writes together: no single one of them is at fault. */
export const toJointError = (error: unknown, field: string): unknown =>
  rewriteError(error, (failure) => ({
    violations:
      failure.violations.length > 0
        ? failure.violations.map((each) => createViolation(field, `${each.field} ${each.message}`, each.code))
        : toOwnViolations(failure, field),
  }))
