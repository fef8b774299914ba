/**
 * The admission queue: limits how many requests are processed concurrently, and how many wait. Requests wait before
 * Fastify sees them, where each is only the object of Node's parser. With the objects that Fastify and the database add,
 * 1000 waiting requests took a fifth of the CPU for garbage collection.
 */
import type { IncomingMessage } from 'node:http'
import { Semaphore } from '../../lib/semaphore.ts'

export interface AdmissionQueueOptions {
  /** Requests that may be processed concurrently. */
  maxActive: number
  /** Requests that may wait. */
  maxWaiting: number
}

/** Interval of the check for slots of requests whose connection has closed. */
const SWEEP_INTERVAL_MS = 1_000

/** Held by a request while it is processed. */
interface Slot {
  request: IncomingMessage | undefined
}

const SLOT = Symbol('slot')

declare module 'node:http' {
  interface IncomingMessage {
    [SLOT]?: Slot | undefined
  }
}

export function createAdmissionQueue({ maxActive, maxWaiting }: AdmissionQueueOptions) {
  // A fixed set of slots. A Map with thousands of insertions and deletions per second leaves old hash tables behind,
  // which keep completed requests in memory until the next full garbage collection.
  const slots = Array.from({ length: maxActive }, (): Slot => ({ request: undefined }))
  const semaphore = new Semaphore(slots, { maxWaiting })

  const release = (request: IncomingMessage) => {
    const slot = request[SLOT]
    if (slot === undefined) return
    request[SLOT] = slot.request = undefined
    // The next request starts after the current call of this one has returned.
    if (semaphore.waiting > 0) queueMicrotask(() => semaphore.release(slot))
    else semaphore.release(slot)
  }
  // A pipelined response that waits behind another one emits no 'close' event when its connection closes.
  const sweep = setInterval(() => {
    for (const { request } of slots) if (request?.socket.destroyed) release(request)
  }, SWEEP_INTERVAL_MS).unref()

  return {
    /**
     * Acquires a slot for a request.
     * @param onAdmit called synchronously if a slot is free, else once the request has its turn
     * @param onRefuse called if too many requests wait, or no slot was free in time
     */
    acquire(request: IncomingMessage, onAdmit: () => void, onRefuse: () => void): void {
      semaphore.acquire((slot) => {
        slot.request = request
        request[SLOT] = slot
        onAdmit()
      }, onRefuse)
    },
    /** Releases the slot of a request, if it has one. */
    release,
    /** Whether a further request could not wait either. */
    get isFull() {
      return semaphore.getLoad().used >= maxActive && semaphore.waiting >= maxWaiting
    },
    isActive: (request: IncomingMessage) => request[SLOT] !== undefined,
    close: () => clearInterval(sweep),
    /** Requests that are being processed. */
    get active() {
      return semaphore.getLoad().used
    },
    /** Requests that wait for a slot. */
    get waiting() {
      return semaphore.waiting
    },
    /** The expected wait of a request that arrives now. */
    get expectedWaitMs() {
      return semaphore.estimateWait()
    },
  }
}

export type AdmissionQueue = ReturnType<typeof createAdmissionQueue>
