/** A failed delivery is attempted again after growing delays, with a jitter of a tenth. */
import t from 'tap'
import { getRetryDelayMs } from '../../plugins/webhooks/delivery/retry-schedule.ts'

/** A `random` between its ends, which leaves the delays as they are. */
const middle = () => 0.5

t.test('eight delays follow the first attempt, and then none', async (t) => {
  const seconds = Array.from({ length: 10 }, (_, index) => {
    const delay = getRetryDelayMs(index + 1, middle)
    return delay && delay / 1_000
  })
  t.same(seconds, [5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200, undefined, undefined])
})

t.test('the jitter is up to a tenth in both directions', async (t) => {
  t.equal(
    getRetryDelayMs(1, () => 0),
    4_500,
  )
  t.equal(
    getRetryDelayMs(1, () => 1 - Number.EPSILON),
    5_500,
  )
  const delays = Array.from({ length: 1_000 }, () => getRetryDelayMs(8) ?? 0)
  t.ok(delays.every((delay) => delay >= 38_880_000 && delay <= 47_520_000))
  t.ok(new Set(delays).size > 900, 'the delays differ')
})
