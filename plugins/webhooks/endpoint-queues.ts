/** What this process has claimed of each endpoint, and how many attempts of an endpoint may run at the same time. */
import type { ClaimedDelivery } from './delivery-store.ts'

interface Claim {
  delivery: ClaimedDelivery
  /** Time of `performance.now()` before the delivery was claimed. */
  claimedAt: number
}

interface EndpointQueue {
  waiting: Claim[]
  running: number
  /** Attempts that failed since the latest success. */
  failures: number
  /** Whether the latest attempt succeeded quickly. */
  isFast: boolean
  /** Times of `performance.now()`: before the first, nothing is claimed; at the second, the latest attempt ended. */
  pausedUntil: number
  lastEnd: number
}

/** Failures in a row after which an endpoint counts as dead: attempts then run one at a time, with pauses. */
const MAX_FAILURES = 5
const PAUSE_MS = 1_000
/** How long an endpoint of which nothing is claimed is remembered. */
const MEMORY_MS = 60_000
const FAST_MS = 250
/** How many rounds of attempts are claimed of a fast endpoint, so that a claim serves many deliveries. */
const ROUNDS = 10

export function createEndpointQueues(concurrency: number) {
  /** Attempts of one endpoint at the same time: a fifth, so that a slow endpoint leaves the rest to others. */
  const share = Math.max(1, Math.floor(concurrency / 5))
  const queues = new Map<string, EndpointQueue>()
  let waiting = 0
  let running = 0

  const isDead = ({ failures }: EndpointQueue) => failures >= MAX_FAILURES
  const getShare = (queue: EndpointQueue) => (isDead(queue) ? 1 : share)

  const getQueue = (id: string): EndpointQueue => {
    const known = queues.get(id)
    if (known) return known
    const queue = { waiting: [], running: 0, failures: 0, isFast: false, pausedUntil: 0, lastEnd: 0 }
    queues.set(id, queue)
    return queue
  }

  const getAllowance = (queue: EndpointQueue, now: number): number => {
    if (now < queue.pausedUntil) return 0
    const rounds = queue.isFast && !isDead(queue) ? ROUNDS : 1
    return Math.max(0, getShare(queue) * rounds - queue.running - queue.waiting.length)
  }

  const empty = (queue: EndpointQueue): ClaimedDelivery[] => {
    const claims = queue.waiting.splice(0)
    waiting -= claims.length
    return claims.map(({ delivery }) => delivery)
  }

  return {
    /** The allowance of an endpoint of which this process knows nothing. */
    defaultAllowance: share,
    /** The number of deliveries that may be claimed of all endpoints. */
    getLimit: () => concurrency * ROUNDS - waiting - running,
    isRunning: () => running > 0,

    /** Returns how many deliveries may be claimed of each known endpoint. */
    getAllowances(): Record<string, number> {
      const now = performance.now()
      return Object.fromEntries([...queues].map(([id, queue]) => [id, getAllowance(queue, now)]))
    },

    add(delivery: ClaimedDelivery, claimedAt: number) {
      getQueue(delivery.endpoint_id).waiting.push({ delivery, claimedAt })
      waiting += 1
    },

    /** Takes the deliveries whose attempts may begin now, one of each endpoint in turn. */
    take(): Claim[] {
      const taken: Claim[] = []
      for (let hasFound = true; hasFound && running < concurrency; ) {
        hasFound = false
        for (const queue of queues.values()) {
          if (running >= concurrency) break
          if (queue.running >= getShare(queue)) continue
          const claim = queue.waiting.shift()
          if (!claim) continue
          hasFound = true
          waiting -= 1
          running += 1
          queue.running += 1
          taken.push(claim)
        }
      }
      return taken
    },

    /**
     * Records that an attempt ended.
     * @param durationMs undefined if no request was sent
     * @returns deliveries to release, since the endpoint is dead
     */
    finish(endpointId: string, isSuccess: boolean, durationMs: number | undefined): ClaimedDelivery[] {
      const queue = getQueue(endpointId)
      running -= 1
      queue.running -= 1
      queue.lastEnd = performance.now()
      if (durationMs === undefined) return []
      queue.isFast = isSuccess && durationMs < FAST_MS
      queue.failures = isSuccess ? 0 : queue.failures + 1
      if (!isDead(queue)) return []
      queue.pausedUntil = queue.lastEnd + PAUSE_MS
      return empty(queue)
    },

    /** Forgets endpoints that were idle for a while, so that memory does not grow with their number. */
    forgetIdle() {
      const before = performance.now() - MEMORY_MS
      for (const [id, queue] of queues) {
        if (queue.running === 0 && queue.waiting.length === 0 && queue.lastEnd < before) queues.delete(id)
      }
    },

    /** Removes all deliveries whose attempts have not begun. */
    clear: (): ClaimedDelivery[] => [...queues.values()].flatMap(empty),
  }
}
