/**
 * Statement batching: reads by key, and changes that wait for nothing, of concurrent requests share a connection and a
 * network packet, which costs client and server more than the work. The server executes the statements of a packet one
 * after the other, so that none of them may wait.
 */
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Param, Row } from '../types.ts'
import type { PendingStatement, ServerConnection } from './connection.ts'

/**
 * Returns a `run` that sends the statements of one event loop iteration in batches, one packet each.
 * @param maxSize statements of a batch. A slow network or a lost connection affects no more than these
 */
export function createBatching(
  connections: Semaphore<ServerConnection>,
  maxSize: number,
  send: (connection: ServerConnection, batch: readonly PendingStatement[]) => Promise<void>,
) {
  let queue: PendingStatement[] = []

  const flush = () => {
    const statements = queue
    queue = []
    for (let i = 0; i < statements.length; i += maxSize) {
      const batch = statements.slice(i, i + maxSize)
      connections
        .run((connection) => send(connection, batch))
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
