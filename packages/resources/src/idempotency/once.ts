/** Runs a write at most once for each Idempotency-Key: the write and its stored response commit together. */
import { apiError } from '@resource-api/api/errors'
import type { Connection, Database } from '@resource-api/database'
import type { Transaction, TransactionOptions } from '@resource-api/database/client'
import type { OnQueue } from '@resource-api/database/concurrency'
import type { FastifyInstance } from 'fastify'
import {
  findResponse,
  type IdempotencyKey,
  keepResponse,
  lockKey,
  publish,
  type ResultFormat,
  type WriteResponse,
} from './stored-responses.ts'

/** The parts of a write, in the order in which they run. */
export interface Work<Found, Prepared, Result> {
  /**
   * Finds the row, and locks it if `isLocking`.
   * @throws ApiError 404, 403: they come before a stored response
   */
  find(connection: Connection, isLocking: boolean): Promise<Found>
  /** Whether the stored response is sent if `find` throws this error: the write may have removed the row itself. */
  isReplayedAfter?: ((error: unknown) => boolean) | undefined
  /** Checks access to what a stored response shows, beyond `find`. @throws ApiError 404, 403 */
  checkStored?: ((connection: Connection, stored: WriteResponse<Result>) => Promise<void>) | undefined
  /** Does slow work, before the transaction begins. */
  prepare?: ((found: Found) => Promise<Prepared>) | undefined
  /** Writes, and builds the response. */
  write(tx: Transaction, found: Found, prepared: Prepared | undefined): Promise<WriteResponse<Result>>
  /** How its result is stored. */
  format: ResultFormat<Result>
  options?: TransactionOptions
  /** Whether its transaction is rolled back. Such work has no key. */
  isDryRun?: boolean
  /** Called if the write has to wait for a connection; see `Semaphore.run`. */
  onQueue?: OnQueue | undefined
}

type Begun<Found, Result> = { stored: WriteResponse<Result> } | { found: Found }

const stillRunning = () => {
  publish('in-progress')
  return apiError('RESOURCE_CONFLICT', {
    message: 'A request with this Idempotency-Key is still running',
    retryAfter: 1,
  })
}

/**
 * @param running the keys whose writes this process runs: they wait for no connection and hash no password
 * @param share runs the transaction on one of the user's connections
 * @throws ApiError 409 while another request with the key is running; 422 if that request had a different body
 */
export async function once<Found, Prepared, Result>(
  database: Database,
  running: Set<string>,
  key: IdempotencyKey,
  {
    find,
    isReplayedAfter,
    checkStored,
    prepare,
    write,
    format,
    options,
    onQueue,
  }: Work<Found, Prepared, Result>,
  share: FastifyInstance['connectionShares'],
): Promise<WriteResponse<Result>> {
  const findStored = async (connection: Connection) => {
    const stored = await findResponse(connection, key, format)
    if (stored) await checkStored?.(connection, stored)
    return stored
  }
  const begin = async (connection: Connection, isLocking: boolean): Promise<Begun<Found, Result>> => {
    let found: Found
    try {
      found = await find(connection, isLocking)
    } catch (error) {
      const stored = isReplayedAfter?.(error) ? await findStored(connection) : undefined
      if (stored) return { stored }
      throw error
    }
    const stored = await findStored(connection)
    return stored ? { stored } : { found }
  }
  if (running.has(key.id)) {
    await find(database, false)
    throw stillRunning()
  }
  running.add(key.id)
  try {
    let prepared: Prepared | undefined
    if (prepare) {
      const begun = await begin(database, false)
      if ('stored' in begun) return begun.stored
      prepared = await prepare(begun.found)
    }
    const writeOnce = async (tx: Transaction): Promise<WriteResponse<Result>> => {
      if (!(await lockKey(tx, key))) {
        await find(tx, false)
        throw stillRunning()
      }
      const begun = await begin(tx, true)
      if ('stored' in begun) return begun.stored
      const response = await write(tx, begun.found, prepared)
      // Rolls back if another request has stored its response in spite of the lock; the next attempt finds that response.
      if (!(await keepResponse(tx, key, response, format))) throw stillRunning()
      return response
    }
    return await share.run(key.userId, () => database.transaction(writeOnce, options), onQueue)
  } finally {
    running.delete(key.id)
  }
}
