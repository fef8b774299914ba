/** A failed delivery is attempted again after growing delays, with a jitter of a tenth, or when the receiver asks for it. */
import t from 'tap'
import { getRetryDelayMs, readRetryAfter } from '../../plugins/webhooks/delivery/retry-schedule.ts'

/** A `random` between its ends, which leaves the delays as they are. */
const middle = () => 0.5

t.test('ten delays follow the first attempt, and then none', async (t) => {
  const seconds = Array.from({ length: 12 }, (_, index) => {
    const delay = getRetryDelayMs(index + 1, undefined, middle)
    return delay && delay / 1_000
  })
  const expected = [5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200, 86_400, 86_400, undefined, undefined]
  t.same(seconds, expected)
})

t.test('the jitter is up to a tenth in both directions', async (t) => {
  t.equal(
    getRetryDelayMs(1, 0, () => 0),
    4_500,
  )
  t.equal(
    getRetryDelayMs(1, 0, () => 1 - Number.EPSILON),
    5_500,
  )
  const delays = Array.from({ length: 1_000 }, () => getRetryDelayMs(8) ?? 0)
  t.ok(delays.every((delay) => delay >= 38_880_000 && delay <= 47_520_000))
  t.ok(new Set(delays).size > 900, 'the delays differ')
})

t.test('Retry-After of a 429 or 503 makes a delay longer, up to 24 hours', async (t) => {
  const now = Date.UTC(2026, 10, 21, 9, 30)
  const cases: [status: number, header: unknown, expected: number | undefined][] = [
    [429, '120', 120_000],
    [503, '0', 0],
    [503, 'Sat, 21 Nov 2026 09:31:00 GMT', 60_000],
    [503, 'Sat, 21 Nov 2026 09:29:00 GMT', 0],
    [500, '120', undefined],
    [200, '120', undefined],
    [429, '-1', undefined],
    [429, '1.5', undefined],
    [429, 'soon', undefined],
    [429, undefined, undefined],
    [429, ['1', '2'], undefined],
  ]
  for (const [status, header, expected] of cases)
    t.equal(readRetryAfter(status, header, now), expected, `${status} ${header}`)

  t.equal(getRetryDelayMs(1, 120_000, middle), 120_000)
  t.equal(getRetryDelayMs(1, 1_000, middle), 5_000, 'the schedule is longer')
  t.equal(getRetryDelayMs(1, 100 * 86_400_000, middle), 86_400_000)
  t.equal(getRetryDelayMs(11, 1_000, middle), undefined, 'after the last attempt none follows')
})
