/** A document that takes long to build holds the event loop for a few milliseconds at a time. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { mapInTurns } from '../../../database/src/lib/map-in-turns.ts'

/** Milliseconds of one value, fewer than a turn may take. */
const VALUE_MS = 4
const VALUES = [...Array(30).keys()]

t.test('other work of the process comes between the values', async (t) => {
  const mapped = mapInTurns(VALUES, (value) => {
    const end = performance.now() + VALUE_MS
    while (performance.now() < end);
    return value * 2
  })
  let [turns, isDone] = [0, false]
  void mapped.then(() => (isDone = true))
  for (; !isDone; turns += 1) await nextTurn()
  t.same(
    await mapped,
    VALUES.map((value) => value * 2),
  )
  // Three values take longer than a turn may.
  t.ok(turns >= 8, `${turns} turns of the event loop within 30 values of ${VALUE_MS} ms`)
})
