/** However many endpoints are slow or dead, and of any owner, the others wait no longer than 2 s for their turn. */
import t from 'tap'
import { createPlaces } from '../../plugins/webhooks/places.ts'

interface SimulatedEndpoint {
  owner: string
  /** How long its attempts take, and whether they succeed. */
  durationMs: number
  isSuccess: boolean
  /** How often a delivery becomes due; 0 if many are always due. */
  everyMs: number
  /** What the database knows of it. */
  lastDurationMs?: number | null
  isFailing?: boolean
}

const STEP_MS = 50
const CONCURRENCY = 50

/** Runs endpoints for a while of simulated time. @returns of each endpoint, its attempts and the longest wait in milliseconds */
function simulate(endpoints: readonly SimulatedEndpoint[], seconds: number) {
  let now = 0
  const places = createPlaces(CONCURRENCY, () => now)
  const states = endpoints.map((endpoint, index) => ({
    ...endpoint,
    id: String(index),
    due: endpoint.everyMs === 0 ? Array.from({ length: 10_000 }, () => 0) : [],
    attempts: 0,
    longestWaitMs: 0,
  }))
  let running: { state: (typeof states)[number]; count: number; end: number }[] = []
  let mostOfAnOwner = 0
  for (; now < seconds * 1_000; now += STEP_MS) {
    for (const { state, count, end } of running) {
      if (end > now) continue
      for (let i = 0; i < count; i++) places.record(state.id, state.isSuccess, state.durationMs)
      places.release(state.id)
    }
    running = running.filter(({ end }) => end > now)
    for (const { everyMs, due } of states) if (everyMs > 0 && now % everyMs === 0) due.push(now)
    const rows = states.flatMap(({ id, owner, due: [first], lastDurationMs = null, isFailing = false }) =>
      first === undefined
        ? []
        : {
            id,
            owner_id: owner,
            is_failing: isFailing,
            last_duration_ms: lastDurationMs,
            due_in_ms: first - now,
          },
    )
    places.setDue(rows)
    const reserved = places.reserve()
    const claimed = new Map(
      Object.entries(reserved).map(([id, { count, length }]) => {
        const state = states[Number(id)]
        return [id, (state?.due.splice(0, count * length) ?? []).map((due) => ({ state, due }))]
      }),
    )
    for (const turn of places.assign(reserved, claimed)) {
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
    for (const { state } of running) byOwner.set(state.owner, (byOwner.get(state.owner) ?? 0) + 1)
    mostOfAnOwner = Math.max(mostOfAnOwner, ...byOwner.values())
  }
  return { states, mostOfAnOwner }
}

const many = (
  count: number,
  getOwner: (index: number) => string,
  endpoint: Omit<SimulatedEndpoint, 'owner' | 'everyMs'>,
): SimulatedEndpoint[] =>
  Array.from({ length: count }, (_, index) => ({ ...endpoint, owner: getOwner(index), everyMs: 0 }))

const SLOW = { durationMs: 9_900, isSuccess: true }
const DEAD = { durationMs: 15_000, isSuccess: false }
const REFUSING = { durationMs: 50, isSuccess: false }
const BUSY = { durationMs: 100, isSuccess: true, lastDurationMs: 100 }
const QUICK: SimulatedEndpoint = { owner: 'quick', durationMs: 50, isSuccess: true, everyMs: 1_000 }

const cases: Record<string, SimulatedEndpoint[]> = {
  '100 slow endpoints of one owner and 20 dead ones of another': [
    ...many(100, () => 'a', SLOW),
    ...many(20, () => 'b', DEAD),
  ],
  'all of one owner': [...many(80, () => 'a', SLOW), ...many(20, () => 'a', DEAD)],
  'four owners with 25 each': [...many(100, (i) => `a${i % 4}`, SLOW), ...many(20, (i) => `a${i % 4}`, DEAD)],
  'thirty owners with 4 each': [
    ...many(100, (i) => `a${i % 30}`, SLOW),
    ...many(20, (i) => `a${i % 30}`, DEAD),
  ],
  'each of its own owner, after a restart': [
    ...many(100, (i) => `a${i}`, { ...SLOW, lastDurationMs: 9_900 }),
    ...many(20, (i) => `b${i}`, { ...DEAD, isFailing: true }),
  ],
  'three busy owners, and 200 endpoints that refuse connections': [
    ...many(3, (i) => `a${i}`, BUSY),
    ...many(200, (i) => `b${i % 40}`, REFUSING),
  ],
}

for (const [name, others] of Object.entries(cases))
  t.test(`a quick endpoint waits at most 2 s beside ${name}`, async (t) => {
    const { states, mostOfAnOwner } = simulate([...others, QUICK], 300)
    const quick = states.at(-1)
    t.equal(quick?.attempts, 300, 'all were sent')
    t.ok(quick && quick.longestWaitMs <= 2_000, `${quick?.longestWaitMs} ms`)
    t.ok(mostOfAnOwner <= CONCURRENCY / 4, `${mostOfAnOwner} places of one owner`)
  })

const KNOWN_QUICK = { ...QUICK, lastDurationMs: 50 }

t.test('endpoints that were quick and hang together leave places to others', async (t) => {
  const hanging = many(20, (i) => `a${i % 5}`, { ...DEAD, lastDurationMs: 20 })
  const quick = simulate([...hanging, KNOWN_QUICK], 60).states.at(-1)
  t.ok(quick && quick.longestWaitMs <= 2_000, `${quick?.longestWaitMs} ms`)
})

t.test('slow endpoints of 60 owners that are not known yet leave places to one that is known', async (t) => {
  const unknown = many(120, (i) => `a${i % 60}`, SLOW)
  const quick = simulate([...unknown, KNOWN_QUICK], 60).states.at(-1)
  t.ok(quick && quick.longestWaitMs <= 2_000, `${quick?.longestWaitMs} ms`)
})

t.test('turns go round: endpoints of the same kind get the same number of attempts', async (t) => {
  const { states } = simulate(
    many(100, (i) => `a${i % 2}`, SLOW),
    300,
  )
  const counts = states.map(({ attempts }) => attempts)
  t.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${Math.min(...counts)} to ${Math.max(...counts)}`)
  t.ok(Math.min(...counts) >= 6, 'two quarters of the places are used')
})

t.test(
  'a slow endpoint holds a tenth of the places, a dead one sends one request at a time with pauses',
  async (t) => {
    const count = (endpoint: Omit<SimulatedEndpoint, 'owner' | 'everyMs'>) =>
      simulate(
        many(1, () => 'a', endpoint),
        60,
      ).states[0]?.attempts
    t.equal(count(SLOW), 31, 'one, then five at a time')
    t.equal(count({ ...DEAD, isFailing: true }), 5 + 3)
    t.equal(count(REFUSING), 1 + 5 + 57)
    t.equal(count(BUSY), 12 * 600)
  },
)

t.test('with one place, an endpoint is served', async (t) => {
  const places = createPlaces(1)
  const due = { id: 'a', owner_id: 'o', is_failing: true, last_duration_ms: null, due_in_ms: -5 }
  places.setDue([due])
  const reserved = places.reserve()
  t.strictSame(reserved, { a: { count: 1, length: 1 } })
  t.strictSame(places.reserve(), {})
  t.equal(places.getLongestWait(), 0, 'it is failing')
  t.strictSame(places.assign(reserved, new Map()), [])
  places.setDue([{ ...due, id: 'b', is_failing: false }])
  t.strictSame(places.reserve(), { b: { count: 1, length: 1 } })
  t.equal(places.getLongestWait(), 5)
})
