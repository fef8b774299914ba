/** Runs a write at most once for each Idempotency-Key: the write and its stored response commit together. */
import type { Connection, Database, Transaction, TransactionOptions } from '../../drizzle/client/types.ts'
import { apiError } from '../errors/index.ts'
import {
  findResponse,
  type IdempotencyKey,
  keepResponse,
  lockKey,
  publish,
  type StoredResponse,
} from './stored-responses.ts'

/** The parts of a write, in the order in which they run. */
export interface Work<Found, Prepared> {
  /**
   * Finds the row, and locks it if `isLocking`.
   * @throws ApiError 404, 403: they come before a stored response
   */
  find(connection: Connection, isLocking: boolean): Promise<Found>
  /** Does slow work, before the transaction begins. */
  prepare?: ((found: Found) => Promise<Prepared>) | undefined
  /** Writes, and builds the response. */
  write(tx: Transaction, found: Found, prepared: Prepared | undefined): Promise<StoredResponse>
  options?: TransactionOptions
}

const stillRunning = () => {
  publish('in-progress')
  return apiError('RESOURCE_CONFLICT', {
    message: 'A request with this Idempotency-Key is still running',
    retryAfter: 1,
  })
}

/**
 * @param running the keys whose writes this process runs: they wait for no connection and hash no password
 * @throws ApiError 409 while another request with the key is running; 422 if that request had a different body
 */
export async function once<Found, Prepared>(
  database: Database,
  running: Set<string>,
  key: IdempotencyKey,
  { find, prepare, write, options }: Work<Found, Prepared>,
): Promise<StoredResponse> {
  if (running.has(key.id)) {
    await find(database, false)
    throw stillRunning()
  }
  running.add(key.id)
  try {
    let prepared: Prepared | undefined
    if (prepare) {
      const found = await find(database, false)
      const stored = await findResponse(database, key)
      if (stored) return stored
      prepared = await prepare(found)
    }
    return await database.transaction(async (tx) => {
      const isLocked = await lockKey(tx, key)
      const found = await find(tx, isLocked)
      if (!isLocked) throw stillRunning()
      const stored = await findResponse(tx, key)
      if (stored) return stored
      const response = await write(tx, found, prepared)
      // Rolls back if another request has stored its response in spite of the lock; the next attempt finds that response.
      if (!(await keepResponse(tx, key, response))) throw stillRunning()
      return response
    }, options)
  } finally {
    running.delete(key.id)
  }
}
