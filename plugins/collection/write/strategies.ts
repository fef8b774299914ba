/**
 * Runs a write in the database. The first strategy whose condition holds is used:
 *
 * | Strategy        | Condition                                   | Steps                                                |
 * |-----------------|---------------------------------------------|------------------------------------------------------|
 * | `writeKeyed`    | the request has an Idempotency-Key          | lock the key, admit, act and store the response in   |
 * |                 |                                             | one transaction; or find the stored response         |
 * | `updateUnread`  | SQL alone can check the change              | one UPDATE; if it changes no row, the strategies     |
 * |                 |                                             | below find out why                                   |
 * | `writeUnlocked` | `act` is one statement: an insert, or an    | admit and act without a transaction; if the row has  |
 * |                 | update of the revision that was read        | changed in between, `writeLocked`                    |
 * | `writeLocked`   | otherwise: several statements               | lock the row, admit and act in one transaction       |
 *
 * DELETE stores no response and always locks: `steps.ts`.
 */
import type { Connection, Database } from '../../../drizzle/client/types.ts'
import { apiError } from '../../errors/index.ts'
import { publish } from '../../idempotency/channels.ts'
import type { KeyedWrite, StoredResponse } from '../../idempotency/keyed-write.ts'
import type { Prepared, Row } from '../definition.ts'
import { StaleRowError } from '../sql/write.ts'

/** The steps of one write, in the order in which they run. `Found` is the row for a change, undefined for an insert. */
export interface WriteSteps<Found> {
  /** The write under its Idempotency-Key; undefined without one. */
  keyedWrite: KeyedWrite | undefined
  /** A single UPDATE that checks access and difference itself. Resolves to undefined if it changed no row. */
  updateUnread: (() => Promise<Row | undefined>) | undefined
  /** Whether `act` is one statement, which throws StaleRowError if the row has changed since it was read. */
  isOneStatement: boolean
  /**
   * Reads the row that the write changes, and locks it if `isLocking`.
   * @throws ApiError 404 if it does not exist, 403 if the caller may not write it
   */
  admit(connection: Connection, isLocking: boolean): Promise<Found>
  /** Does slow work, before the transaction begins. */
  prepare?: ((found: Found) => Promise<Prepared<Row, Row>>) | undefined
  /** Computes the change and writes it, with its side effects. */
  act(connection: Connection, found: Found, prepared: Prepared<Row, Row> | undefined): Promise<Row>
  /** Returns whether the write left the row as it was. */
  isUnchanged(found: Found, row: Row): boolean
  /** Builds the response for the written row. */
  respond(row: Row): StoredResponse
}

/** A concurrent request stored its response under the same key in spite of the lock, so this write is rolled back. */
class IdempotencyConflictError extends Error {}

const stillRunning = () => {
  publish('in-progress')
  return apiError('RESOURCE_CONFLICT', {
    message: 'A request with this Idempotency-Key is still running',
    retryAfter: 1,
  })
}

/**
 * Creates the function that runs the writes of one resource.
 * @param columns the columns of its table
 */
export function createRunWrite(database: Database, columns: ReadonlySet<string>) {
  /** Locks the row in a transaction, then writes it. */
  const writeLocked = <Found>(steps: WriteSteps<Found>, prepared: Prepared<Row, Row> | undefined) =>
    database.transaction(async (tx) => steps.act(tx, await steps.admit(tx, true), prepared))

  /** Writes without a transaction; if the row has changed since it was read, once more with a lock. */
  const writeUnlocked = async <Found>(steps: WriteSteps<Found>, prepared: Prepared<Row, Row> | undefined) => {
    try {
      return await steps.act(database, await steps.admit(database, false), prepared)
    } catch (error) {
      if (error instanceof StaleRowError) return writeLocked(steps, prepared)
      throw error
    }
  }

  /** The part of a response that can be stored: without fields that have no column, such as the text of a new key. */
  const toStored = <Found>({ respond }: WriteSteps<Found>, row: Row, response: StoredResponse) => {
    const computed = Object.keys(row).filter((name) => !columns.has(name))
    if (computed.length === 0) return response
    const stored: Row = { ...row }
    for (const name of computed) delete stored[name]
    return respond(stored)
  }

  /** Writes, and stores the response under the key, in one transaction; or returns the response stored earlier. */
  const writeAndStore = <Found>(
    keyedWrite: KeyedWrite,
    steps: WriteSteps<Found>,
    prepared: Prepared<Row, Row> | undefined,
  ): Promise<StoredResponse> =>
    database.transaction(async (tx) => {
      const isAlone = await keyedWrite.lock(tx)
      const found = await steps.admit(tx, isAlone)
      if (!isAlone) throw stillRunning()
      const stored = await keyedWrite.find(tx)
      if (stored) return stored
      const row = await steps.act(tx, found, prepared)
      const response = steps.respond(row)
      const isStored = await keyedWrite.keep(
        tx,
        toStored(steps, row, response),
        steps.isUnchanged(found, row),
      )
      if (!isStored) throw new IdempotencyConflictError()
      return response
    })

  /** Prepares, unless the key has a stored response already, and writes. */
  const prepareAndStore = async <Found>(
    keyedWrite: KeyedWrite,
    steps: WriteSteps<Found>,
  ): Promise<StoredResponse> => {
    let prepared: Prepared<Row, Row> | undefined
    if (steps.prepare) {
      const found = await steps.admit(database, false)
      const stored = await keyedWrite.find(database)
      if (stored) return stored
      prepared = await steps.prepare(found)
    }
    try {
      return await writeAndStore(keyedWrite, steps, prepared)
    } catch (error) {
      // The second time it finds the response that the other request stored.
      if (error instanceof IdempotencyConflictError) return writeAndStore(keyedWrite, steps, prepared)
      throw error
    }
  }

  /** With an Idempotency-Key: at most once, and with the same response each time. */
  const writeKeyed = async <Found>(
    keyedWrite: KeyedWrite,
    steps: WriteSteps<Found>,
  ): Promise<StoredResponse> => {
    const release = keyedWrite.begin()
    if (!release) {
      // 404 and 403 come before this 409.
      await steps.admit(database, false)
      throw stillRunning()
    }
    try {
      const response = await prepareAndStore(keyedWrite, steps)
      if (response.replayed) publish('replayed')
      return response
    } finally {
      release()
    }
  }

  // The table above, row by row.
  return async <Found>(steps: WriteSteps<Found>): Promise<StoredResponse> => {
    const { keyedWrite, updateUnread, isOneStatement } = steps
    if (keyedWrite) return writeKeyed(keyedWrite, steps)
    // If it changes no row, the row is read to find out why.
    const updated = updateUnread && (await updateUnread())
    if (updated) return steps.respond(updated)
    const prepared = steps.prepare && (await steps.prepare(await steps.admit(database, false)))
    const row = await (isOneStatement ? writeUnlocked(steps, prepared) : writeLocked(steps, prepared))
    return steps.respond(row)
  }
}
