/** A document that takes long to build holds the event loop for a few milliseconds at a time. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { mapInTurns } from '../../lib/map-in-turns.ts'

/** Milliseconds of one value, fewer than a turn may take. */
const VALUE_MS = 4

function spin(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

t.test('other work of the process comes between the values', async (t) => {
  let isDone = false
  const mapped = mapInTurns(Array(30).keys(), (value) => {
    spin(VALUE_MS)
    return value * 2
  }).finally(() => {
    isDone = true
  })
  let turns = 0
  while (!isDone) {
    await nextTurn()
    turns += 1
  }
  t.same(
    await mapped,
    [...Array(30).keys()].map((value) => value * 2),
  )
  // Three values take longer than a turn may.
  t.ok(turns >= 8, `${turns} turns of the event loop within 30 values of ${VALUE_MS} ms`)
})
