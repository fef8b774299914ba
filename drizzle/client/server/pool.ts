/**
 * The connection pool of one server: each connection is lent to one caller, or to one batch of statements, at a time.
 */

import { Semaphore, type SemaphoreOptions } from '../../../lib/semaphore.ts'
import { DatabaseUnavailable } from '../errors.ts'
import type { DatabaseClient, Queryable } from '../types.ts'
import { createReadBatching, createWriteBatching } from './batching.ts'
import { isRead, ServerConnection, type ServerConnectionOptions } from './connection.ts'

interface PoolOptions {
  /** Connections at most. */
  size: number
  connection: ServerConnectionOptions
  limits: SemaphoreOptions
}

export function createPool({ size, connection: options, limits }: PoolOptions) {
  const connections = Array.from({ length: size }, () => new ServerConnection(options))
  const semaphore = new Semaphore(connections, {
    createError: (reason) => new DatabaseUnavailable(`No database connection is available: ${reason}`),
    ...limits,
  })
  const readInBatch = createReadBatching(semaphore)
  const writeInBatch = createWriteBatching(semaphore)

  const run: Queryable['run'] = (text, params, runOptions = {}) => {
    if (runOptions.canBatch) return isRead(text) ? readInBatch(text, params) : writeInBatch(text, params)
    return semaphore.run((connection) => connection.run(text, params, runOptions))
  }
  const transaction: DatabaseClient['transaction'] = (work, transactionOptions) =>
    semaphore.run((connection) => connection.transaction(work, transactionOptions))

  return {
    run,
    transaction,
    getLoad: () => semaphore.getLoad(),
    estimateWait: () => semaphore.estimateWait(),
    /** Closes connections whose server has not answered in time. To be called several times a second. */
    closeSilent() {
      for (const connection of connections) connection.closeIfSilent()
    },
    /** Closes all sockets immediately: statements without an answer fail. */
    destroy() {
      for (const connection of connections) connection.destroy()
    },
    async close() {
      await semaphore.close()
      await Promise.all(connections.map((connection) => connection.close()))
    },
  }
}
