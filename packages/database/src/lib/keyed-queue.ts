/** Runs one piece of work at a time for each key, for example for each user, or a few. */
import { type OnQueue, Semaphore, type SemaphoreOptions } from './semaphore.ts'

/** Longer than any request. */
const MAX_WAIT_MS = 60_000

interface KeyedQueueOptions extends SemaphoreOptions {
  /** The work of one key that may run at the same time. */
  size?: number
}

export function createKeyedQueue({ size = 1, ...options }: KeyedQueueOptions = {}) {
  const members = Array.from({ length: size }, () => ({}))
  const queues = new Map<string, Semaphore<object>>()

  return {
    /**
     * Runs the work when earlier work of the key is done.
     * @param onQueue see `Semaphore.run`
     */
    async run<T>(key: string, work: () => Promise<T>, onQueue?: OnQueue): Promise<T> {
      const queue = queues.get(key) ?? new Semaphore(members, { acquireTimeout: MAX_WAIT_MS, ...options })
      queues.set(key, queue)
      try {
        return await queue.run(work, onQueue)
      } finally {
        if (queue.used + queue.waiting === 0) queues.delete(key)
      }
    },

    /** Returns how much work of a key waits or runs. */
    getSize(key: string): number {
      const { used, waiting } = queues.get(key)?.getLoad() ?? { used: 0, waiting: 0 }
      return used + waiting
    },
  }
}
