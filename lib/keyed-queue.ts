/** Runs work one at a time for each key, for example for each user. */
import createLimit, { type LimitFunction } from 'p-limit'

export function createKeyedQueue() {
  const queues = new Map<string, { run: LimitFunction; size: number }>()

  return {
    /** Runs the work when all earlier work of the key is done. */
    async run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const queue = queues.get(key) ?? { run: createLimit(1), size: 0 }
      queues.set(key, queue)
      queue.size += 1
      try {
        return await queue.run(work)
      } finally {
        queue.size -= 1
        if (queue.size === 0) queues.delete(key)
      }
    },

    /** Returns how much work of a key waits or runs. */
    getSize: (key: string): number => queues.get(key)?.size ?? 0,
  }
}
