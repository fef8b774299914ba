/** The connection pool of one server: each connection is lent to one caller, or one batch of statements, at a time. */
import { Semaphore, type SemaphoreOptions } from '../../lib/semaphore.ts'
import { PoolExhausted } from '../errors.ts'
import type { DatabaseClient } from '../types.ts'
import { createBatching } from './batching.ts'
import { isRead, ServerConnection, type ServerConnectionOptions } from './connection.ts'

interface Pool extends Pick<DatabaseClient, 'run' | 'transaction' | 'getLoad' | 'estimateWait' | 'close'> {
  /** Closes connections whose server has not answered in time. To be called several times a second. */
  closeSilent(): void
  /** Closes all sockets immediately: statements without an answer fail. */
  destroy(): void
}

/** @param size connections at most */
export function createPool(size: number, options: ServerConnectionOptions, limits: SemaphoreOptions): Pool {
  const connections = Array.from({ length: size }, () => new ServerConnection(options))
  const semaphore = new Semaphore(connections, {
    createError: (reason) => new PoolExhausted(`No database connection is available: ${reason}`),
    ...limits,
  })
  const readInBatch = createBatching(semaphore, 8, (connection, batch) => connection.readAll(batch))
  // Each is a transaction of its own: the commits of a batch wait for the disk one after the other.
  const writeInBatch = createBatching(semaphore, 4, (connection, batch) => connection.writeAll(batch))
  return {
    run(text, params, runOptions = {}) {
      if (runOptions.canBatch) return isRead(text) ? readInBatch(text, params) : writeInBatch(text, params)
      return semaphore.run((connection) => connection.run(text, params, runOptions))
    },
    transaction: (work, txOptions) => semaphore.run((connection) => connection.transaction(work, txOptions)),
    getLoad: semaphore.getLoad.bind(semaphore),
    estimateWait: semaphore.estimateWait.bind(semaphore),
    closeSilent() {
      for (const connection of connections) connection.closeIfSilent()
    },
    destroy() {
      for (const connection of connections) connection.destroy()
    },
    async close() {
      await semaphore.close()
      await Promise.all(connections.map((connection) => connection.close()))
    },
  }
}
