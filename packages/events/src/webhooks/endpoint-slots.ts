/**
 * Shares the slots of a process, which are the attempts that it makes at the same time, among endpoints and their owners.
 * An endpoint that is slow or dead holds its slots for long, so each limit below leaves slots to others:
 *
 * | All slots                   | the last quarter only for owners who hold none                                |
 * |-----------------------------|-------------------------------------------------------------------------------|
 * | One owner                   | a quarter                                                                     |
 * | Endpoints not known as fast | half of all; those of owners who hold none, three quarters                    |
 * | Slow or failing endpoints   | half of all                                                                   |
 * | One endpoint                | fast: like its owner; slow or failing: a tenth; dead or not known: one        |
 *
 * A free slot goes to the owner who holds the fewest, and to the endpoint of that owner that was served least recently.
 */
import type { DueGroup, Reservation, Slots } from '@resource-api/work'
import type { EndpointState } from './endpoint-store.ts'

type Speed = 'unknown' | 'fast' | 'slow'

interface Owner {
  id: string
  running: number
  /** Number of the latest turn. */
  turn: number
  /** In the order of their turns, the next one first. */
  endpoints: Set<Endpoint>
}

interface Endpoint {
  id: string
  owner: Owner
  running: number
  speed: Speed
  /** How long the latest attempt took. */
  durationMs: number
  /** Attempts that failed since the latest success. */
  failures: number
  isDue: boolean
  /** Times of the clock: before the first, nothing is sent; at the others, the latest attempt began and ended. */
  pausedUntil: number
  lastStart: number
  lastEnd: number
}

/** A fast endpoint answers in less time. */
const FAST_MS = 1_000
/** Deliveries that are sent in one slot one after the other: as many as fit into this time, so that turns are short. */
const TURN_MS = 200
const MAX_TURN_LENGTH = 8
/** Failures in a row after which an endpoint counts as dead: attempts then run one at a time, with pauses. */
const MAX_FAILURES = 5
const PAUSE_MS = 1_000
/** How long an endpoint without due deliveries is remembered. */
const MEMORY_MS = 60_000

/**
 * Creates slots that endpoints share.
 * @param concurrency the number of slots
 * @param now a monotonic clock in milliseconds
 */
export function createEndpointSlots(
  concurrency: number,
  now: () => number = () => performance.now(),
): Slots<EndpointState> {
  const part = (of: number) => Math.max(1, Math.floor(concurrency / of))
  const quarter = part(4)
  const half = part(2)
  const rest = Math.max(1, concurrency - quarter)
  const owners = new Map<string, Owner>()
  const endpoints = new Map<string, Endpoint>()
  const running: Record<Speed, number> = { unknown: 0, fast: 0, slow: 0 }
  const countRunning = () => running.unknown + running.fast + running.slow
  let turns = 0
  let longestWait = 0

  const isDead = ({ failures }: Endpoint) => failures >= MAX_FAILURES

  function getShare(endpoint: Endpoint): number {
    if (endpoint.speed === 'unknown' || isDead(endpoint)) return 1
    return endpoint.speed === 'fast' ? quarter : part(10)
  }

  function getTurnLength({ speed, durationMs }: Endpoint): number {
    if (speed !== 'fast') return 1
    return Math.max(1, Math.min(MAX_TURN_LENGTH, Math.floor(TURN_MS / Math.max(1, durationMs))))
  }

  function mayStart(endpoint: Endpoint, at: number): boolean {
    const { owner, speed } = endpoint
    const isFirst = owner.running === 0
    if (!endpoint.isDue || at < endpoint.pausedUntil || endpoint.running >= getShare(endpoint)) return false
    if (owner.running >= quarter || countRunning() >= (isFirst ? concurrency : rest)) return false
    if (speed === 'fast') return true
    return (
      running.unknown + running.slow < (isFirst ? rest : half) && (speed === 'unknown' || running.slow < half)
    )
  }

  function hold(endpoint: Endpoint, count: number): void {
    endpoint.running += count
    endpoint.owner.running += count
    running[endpoint.speed] += count
  }

  function setSpeed(endpoint: Endpoint, speed: Speed): void {
    running[endpoint.speed] -= endpoint.running
    running[speed] += endpoint.running
    endpoint.speed = speed
  }

  function addEndpoint({ id, state }: DueGroup<EndpointState>): Endpoint {
    const { owner_id, is_failing, last_duration_ms } = state
    const owner = owners.get(owner_id) ?? { id: owner_id, running: 0, turn: 0, endpoints: new Set() }
    const isSlow = is_failing || (last_duration_ms ?? 0) >= FAST_MS
    const endpoint: Endpoint = {
      id,
      owner,
      running: 0,
      speed: isSlow ? 'slow' : last_duration_ms === null ? 'unknown' : 'fast',
      durationMs: last_duration_ms ?? 0,
      failures: 0,
      isDue: true,
      pausedUntil: 0,
      lastStart: Number.NEGATIVE_INFINITY,
      lastEnd: now(),
    }
    owners.set(owner_id, owner)
    owner.endpoints.add(endpoint)
    endpoints.set(id, endpoint)
    return endpoint
  }

  /** Forgets idle endpoints, so that memory does not grow with their number. */
  function forgetIdle(before: number): void {
    for (const endpoint of endpoints.values()) {
      if (endpoint.isDue || endpoint.running > 0 || endpoint.lastEnd >= before) continue
      endpoints.delete(endpoint.id)
      endpoint.owner.endpoints.delete(endpoint)
      if (endpoint.owner.endpoints.size === 0) owners.delete(endpoint.owner.id)
    }
  }

  /** Returns the owner whose turn it is: the one who holds the fewest slots, then the one served least recently. */
  const findNext = (waiting: ReadonlySet<Owner>): Owner | undefined => {
    let next: Owner | undefined
    for (const owner of waiting) {
      if (!next || owner.running < next.running || (owner.running === next.running && owner.turn < next.turn))
        next = owner
    }
    return next
  }

  /** Returns the endpoint of an owner whose turn it is. */
  const findEndpoint = ({ endpoints: own }: Owner, at: number): Endpoint | undefined => {
    for (const endpoint of own) if (mayStart(endpoint, at)) return endpoint
    return undefined
  }

  return {
    setDue(due) {
      const at = now()
      for (const endpoint of endpoints.values()) endpoint.isDue = false
      longestWait = 0
      for (const row of due) {
        if (row.due_in_ms > 0) continue
        const endpoint = endpoints.get(row.id) ?? addEndpoint(row)
        endpoint.isDue = true
        const wait = Math.min(-row.due_in_ms, at - endpoint.lastStart)
        if (endpoint.speed !== 'slow') longestWait = Math.max(longestWait, wait)
      }
      forgetIdle(at - MEMORY_MS)
    },

    getLongestWait: () => longestWait,

    reserve() {
      const reserved: Reservation = {}
      if (countRunning() >= concurrency) return reserved
      const at = now()
      const waiting = new Set<Owner>()
      for (const { isDue, owner } of endpoints.values()) if (isDue) waiting.add(owner)
      for (let owner = findNext(waiting); owner; owner = findNext(waiting)) {
        const endpoint = findEndpoint(owner, at)
        if (!endpoint) {
          waiting.delete(owner)
          continue
        }
        hold(endpoint, 1)
        turns += 1
        owner.turn = turns
        endpoint.lastStart = at
        // The last one of its owner.
        owner.endpoints.delete(endpoint)
        owner.endpoints.add(endpoint)
        const count = (reserved[endpoint.id]?.count ?? 0) + 1
        reserved[endpoint.id] = { count, length: getTurnLength(endpoint) }
      }
      return reserved
    },

    assign(reserved, claimed) {
      return Object.entries(reserved).flatMap(([id, { count }]) => {
        const deliveries = claimed.filter(({ group }) => group === id)
        const kept = Math.min(count, deliveries.length)
        const endpoint = endpoints.get(id)
        if (endpoint) hold(endpoint, kept - count)
        if (endpoint && kept === 0) endpoint.isDue = false
        return Array.from({ length: kept }, (_, slot) => deliveries.filter((_each, i) => i % kept === slot))
      })
    },

    release(endpointId) {
      const endpoint = endpoints.get(endpointId)
      if (!endpoint) return
      hold(endpoint, -1)
      endpoint.lastEnd = now()
    },

    record(endpointId, isSuccess, durationMs) {
      const endpoint = endpoints.get(endpointId)
      if (!endpoint) return false
      endpoint.durationMs = durationMs
      setSpeed(endpoint, isSuccess && durationMs < FAST_MS ? 'fast' : 'slow')
      endpoint.failures = isSuccess ? 0 : endpoint.failures + 1
      if (isDead(endpoint)) endpoint.pausedUntil = now() + PAUSE_MS
      return endpoint.speed === 'fast'
    },
  }
}
