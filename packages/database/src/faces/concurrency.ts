/** Semaphores, queues by key, repeated work, and long work in turns on the event loop. */
export { BackgroundTask } from '../lib/background-task.ts'
export { createKeyedQueue } from '../lib/keyed-queue.ts'
export { mapInTurns, SHORT_TURN_MS } from '../lib/map-in-turns.ts'
export type { MaybePromise } from '../lib/maybe-promise.ts'
export { type OnQueue, Semaphore } from '../lib/semaphore.ts'
