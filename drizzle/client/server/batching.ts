/**
 * Statement batching: quick reads of concurrent requests share a connection and a network packet. For a statement that
 * finds its row by a key, the packet costs client and server more than the work.
 */
import type { Semaphore } from '../../../lib/semaphore.ts'
import type { Param, Row } from '../types.ts'
import type { PendingRead, ServerConnection } from './connection.ts'

/** Statements pipelined on one connection. A slow network or a lost connection affects no more than these. */
const MAX_BATCH_SIZE = 8

/** Returns a `run` that sends the reads of one event loop iteration in batches of `MAX_BATCH_SIZE`, one packet each. */
export function createReadBatching(connections: Semaphore<ServerConnection>) {
  let queue: PendingRead[] = []

  const send = (batch: readonly PendingRead[]) => {
    connections
      .run((connection) => connection.readAll(batch))
      .catch((error: unknown) => {
        for (const { reject } of batch) reject(error)
      })
  }

  const flush = () => {
    const reads = queue
    queue = []
    for (let i = 0; i < reads.length; i += MAX_BATCH_SIZE) send(reads.slice(i, i + MAX_BATCH_SIZE))
  }

  /** @throws as `ServerConnection.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      if (queue.length === 0) setImmediate(flush)
      queue.push({ text, params, resolve, reject })
    })
}
