/** However many endpoints are slow or dead, the others wait no longer than 2 s for their turn. */
import t from 'tap'
import { createEndpointSlots } from '../../src/webhooks/endpoint-slots.ts'

interface SimulatedEndpoint {
  owner_id: string
  /** How long its attempts take, and whether they succeed. */
  durationMs: number
  isSuccess: boolean
  /** How often a delivery becomes due; 0 if many are always due. */
  everyMs: number
  /** What the database knows of it. */
  last_duration_ms?: number | null
  is_failing?: boolean
}

const STEP_MS = 50
const CONCURRENCY = 50

/** Runs endpoints for a while of simulated time. @returns of each endpoint, its attempts and the longest wait in milliseconds */
function simulate(endpoints: readonly SimulatedEndpoint[], seconds: number) {
  let now = 0
  const slots = createEndpointSlots(CONCURRENCY, () => now)
  const states = endpoints.map((endpoint, index) => ({
    ...endpoint,
    id: String(index),
    /** When deliveries became due that were not claimed. */
    due: [] as number[],
    attempts: 0,
    longestWaitMs: 0,
  }))
  let running: { state: (typeof states)[number]; count: number; end: number }[] = []
  let mostOfAnOwner = 0
  for (; now < seconds * 1_000; now += STEP_MS) {
    for (const { state, count, end } of running) {
      if (end > now) continue
      for (let i = 0; i < count; i++) slots.record(state.id, state.isSuccess, state.durationMs)
      slots.release(state.id)
    }
    running = running.filter(({ end }) => end > now)
    for (const { everyMs, due } of states) if (everyMs > 0 && now % everyMs === 0) due.push(now)
    slots.setDue(
      states
        .filter(({ everyMs, due }) => everyMs === 0 || due.length > 0)
        .map(({ id, owner_id, due: [first = 0], last_duration_ms = null, is_failing = false }) => ({
          ...{ id, state: { owner_id, is_failing, last_duration_ms }, due_in_ms: first - now },
        })),
    )
    const reserved = slots.reserve()
    const claimed = Object.entries(reserved).flatMap(([id, { count, length }]) => {
      const state = states[Number(id)]
      const taken = state?.everyMs ? state.due.splice(0, count * length) : Array(count * length).fill(0)
      return taken.map((due) => ({ group: id, state, due }))
    })
    for (const turn of slots.assign(reserved, claimed)) {
      const [state] = turn.map((each) => each.state)
      if (!state) continue
      // They are sent one after the other.
      for (const [i, { due }] of turn.entries())
        state.longestWaitMs = Math.max(state.longestWaitMs, now + i * state.durationMs - due)
      state.attempts += turn.length
      running.push({ state, count: turn.length, end: now + turn.length * state.durationMs })
    }
    if (running.length > CONCURRENCY) throw new Error(`${running.length} attempts run`)
    const byOwner = new Map<string, number>()
    for (const { state } of running) byOwner.set(state.owner_id, (byOwner.get(state.owner_id) ?? 0) + 1)
    mostOfAnOwner = Math.max(mostOfAnOwner, ...byOwner.values())
  }
  return { states, mostOfAnOwner }
}

type Kind = Omit<SimulatedEndpoint, 'owner_id' | 'everyMs'>

/** Returns endpoints that always have due deliveries, of a number of owners in turn. */
const many = (count: number, owners: number, kind: Kind, name = 'a'): SimulatedEndpoint[] =>
  Array.from({ length: count }, (_, i) => ({ ...kind, owner_id: `${name}${i % owners}`, everyMs: 0 }))

const SLOW = { durationMs: 9_900, isSuccess: true }
const KNOWN_SLOW = { ...SLOW, last_duration_ms: 9_900 }
const DEAD = { durationMs: 15_000, isSuccess: false }
const KNOWN_DEAD = { ...DEAD, is_failing: true }
const REFUSING = { durationMs: 50, isSuccess: false }
const BUSY = { durationMs: 100, isSuccess: true, last_duration_ms: 100 }
const QUICK: SimulatedEndpoint = { owner_id: 'quick', durationMs: 50, isSuccess: true, everyMs: 1_000 }
const KNOWN_QUICK = { ...QUICK, last_duration_ms: 50 }

for (const [name, others, endpoint = QUICK] of [
  [
    '100 slow endpoints of one owner, 20 dead ones of another',
    [...many(100, 1, SLOW), ...many(20, 1, DEAD, 'b')],
  ],
  ['those of one owner', [...many(80, 1, SLOW), ...many(20, 1, DEAD)]],
  ['those of four owners', [...many(100, 4, SLOW), ...many(20, 4, DEAD)]],
  ['those of thirty owners', [...many(100, 30, SLOW), ...many(20, 30, DEAD)]],
  ['those of 120 owners, after a restart', [...many(100, 100, KNOWN_SLOW), ...many(20, 20, KNOWN_DEAD, 'b')]],
  ['three busy owners, and 200 that refuse', [...many(3, 3, BUSY), ...many(200, 40, REFUSING, 'b')]],
  [
    'endpoints that were quick and hang together',
    many(20, 5, { ...DEAD, last_duration_ms: 20 }),
    KNOWN_QUICK,
  ],
  ['slow endpoints of 60 owners that are not known yet', many(120, 60, SLOW), KNOWN_QUICK],
] as const)
  t.test(`a quick endpoint waits at most 2 s with ${name}`, async (t) => {
    const { states, mostOfAnOwner } = simulate([...others, endpoint], 150)
    const quick = states.at(-1)
    t.equal(quick?.attempts, 150, 'all were sent')
    t.ok(quick && quick.longestWaitMs <= 2_000, `${quick?.longestWaitMs} ms`)
    t.ok(mostOfAnOwner <= CONCURRENCY / 4, `${mostOfAnOwner} slots of one owner`)
  })

t.test('turns go round: endpoints of the same kind get the same number of attempts', async (t) => {
  const counts = simulate(many(100, 2, SLOW), 300).states.map(({ attempts }) => attempts)
  t.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${Math.min(...counts)} to ${Math.max(...counts)}`)
  t.ok(Math.min(...counts) >= 6, 'two quarters of the slots are used')
})

for (const [name, kind, attempts] of [
  ['a slow endpoint holds one slot, then a tenth of all', SLOW, 31],
  ['a dead endpoint sends one request at a time, with pauses', KNOWN_DEAD, 5 + 3],
  ['an endpoint that refuses connections is paused', REFUSING, 1 + 5 + 57],
  ['a fast endpoint holds a quarter of the slots', BUSY, 12 * 600],
] as const)
  t.test(name, async (t) => t.equal(simulate(many(1, 1, kind), 60).states[0]?.attempts, attempts))

t.test('with one slot, an endpoint is served', async (t) => {
  const slots = createEndpointSlots(1)
  const state = { owner_id: 'o', is_failing: true, last_duration_ms: null }
  const due = { id: 'a', state, due_in_ms: -5 }
  slots.setDue([due])
  const reserved = slots.reserve()
  t.strictSame(reserved, { a: { count: 1, length: 1 } })
  t.strictSame(slots.reserve(), {})
  t.equal(slots.getLongestWait(), 0, 'it is failing')
  t.strictSame(slots.assign(reserved, []), [])
  slots.setDue([{ ...due, id: 'b', state: { ...state, is_failing: false } }])
  t.strictSame(slots.reserve(), { b: { count: 1, length: 1 } })
  t.equal(slots.getLongestWait(), 5)
})
