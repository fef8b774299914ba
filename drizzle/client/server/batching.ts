/**
 * Statement batching: reads by key of concurrent requests share a connection and a network packet, which costs client and
 * server more than the work. The server executes the statements of a packet one after the other, so that none of them may
 * wait.
 */
import type { Semaphore } from '../../../lib/semaphore.ts'
import type { Param, Row } from '../types.ts'
import type { PendingStatement, ServerConnection } from './connection.ts'

/** Statements pipelined on one connection. A slow network or a lost connection affects no more than these. */
const MAX_BATCH_SIZE = 8

/** Returns a `run` that sends the reads of one event loop iteration in batches of `MAX_BATCH_SIZE`, one packet each. */
export function createReadBatching(connections: Semaphore<ServerConnection>) {
  let queue: PendingStatement[] = []

  const flush = () => {
    const reads = queue
    queue = []
    for (let i = 0; i < reads.length; i += MAX_BATCH_SIZE) {
      const batch = reads.slice(i, i + MAX_BATCH_SIZE)
      connections
        .run((connection) => connection.readAll(batch))
        .catch((error: unknown) => {
          for (const { reject } of batch) reject(error)
        })
    }
  }

  /** @throws as `ServerConnection.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      if (queue.length === 0) setImmediate(flush)
      queue.push({ text, params, resolve, reject })
    })
}
