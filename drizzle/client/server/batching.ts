/**
 * Statement batching: quick statements of concurrent requests share a connection and a network packet. For a statement
 * that finds its row by a key, the packet costs client and server more than the work. Without batching of writes, the
 * server takes 24 % more CPU for W6 of the bench (15 interleaved rounds). Callers batch no statement that may wait for
 * another transaction (`RunOptions.canBatch`): the server executes those behind it only when it ends.
 */
import type { Semaphore } from '../../../lib/semaphore.ts'
import type { Param, Row } from '../types.ts'
import type { PendingStatement, ServerConnection } from './connection.ts'

/** Statements pipelined on one connection. A slow network or a lost connection affects no more than these. */
const MAX_BATCH_SIZE = 8
/** While writes wait for the disk: enough to go on measuring that wait, the others get their own connections. */
const SLOW_BATCH_SIZE = 2
/** A write that takes less has not waited for the disk. */
const FAST_WRITE_MS = 1
/** Weight of the latest batch in the moving average. */
const LATEST_WEIGHT = 0.1

type Connections = Semaphore<ServerConnection>

interface QueuedWrite extends PendingStatement {
  isQueued: boolean
}

/** Returns a `run` that sends the reads of one event loop iteration in batches of `MAX_BATCH_SIZE`, one packet each. */
export function createReadBatching(connections: Connections) {
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

/**
 * Returns a `run` that sends writes in batches, each write a transaction of its own. Batches are small while writes
 * wait for the disk: on several connections they wait for it together. If no connection is free, the next free one
 * takes a fair share of the queue, so that all connections stay in use.
 */
export function createWriteBatching(connections: Connections) {
  /** Moving average of the milliseconds that a write takes behind another in its batch. */
  let averageTime = FAST_WRITE_MS
  /** In the order of arrival. Not a Set: its old hash tables would keep statements that have long been answered. */
  let queue: QueuedWrite[] = []
  /** Writes that arrived in this event loop iteration. */
  let arrived: QueuedWrite[] = []

  const takeBatch = (): PendingStatement[] => {
    const batchSize = averageTime < FAST_WRITE_MS ? MAX_BATCH_SIZE : SLOW_BATCH_SIZE
    const fairShare = Math.ceil(queue.length / connections.getLoad().size)
    const size = Math.min(MAX_BATCH_SIZE, Math.max(batchSize, fairShare))
    const batch = queue.slice(0, size)
    queue = queue.slice(size)
    for (const write of batch) write.isQueued = false
    return batch
  }

  /** Waits for a connection, then sends the batch at the head of the queue on it. */
  const send = (write: QueuedWrite) => {
    let batch: PendingStatement[] = []
    const sendBatch = async (connection: ServerConnection) => {
      // An earlier batch may have taken this write along.
      if (!write.isQueued) return
      batch = takeBatch()
      const elapsed = await connection.writeAll(batch)
      if (batch.length > 1) averageTime += LATEST_WEIGHT * (elapsed / (batch.length - 1) - averageTime)
    }
    connections.run(sendBatch).catch((error: unknown) => {
      if (write.isQueued) {
        write.isQueued = false
        queue = queue.filter((queued) => queued !== write)
        write.reject(error)
      }
      for (const { reject } of batch) reject(error)
    })
  }

  const flush = () => {
    const writes = arrived
    arrived = []
    for (const write of writes) if (write.isQueued) send(write)
  }

  /** @throws as `ServerConnection.run` does */
  return (text: string, params: readonly Param[] = []): Promise<Row[]> =>
    new Promise((resolve, reject) => {
      const write = { text, params, resolve, reject, isQueued: true }
      if (arrived.length === 0) setImmediate(flush)
      arrived.push(write)
      queue.push(write)
    })
}
