/** A failed delivery is attempted again after growing delays, with a jitter of a tenth, or when the receiver asks for it. */
import t from 'tap'
import { getRetryDelayMs, readRetryAfter } from '../../src/webhooks/delivery/retry-schedule.ts'

const DAY = 86_400

t.test('ten delays follow the first attempt, with a jitter of a tenth, and then none', async (t) => {
  const expected = [5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200, DAY, DAY, null, null]
  for (const [index, seconds] of expected.entries())
    for (const [random, factor] of [
      [0, 900],
      [0.5, 1_000],
      [1 - Number.EPSILON, 1_100],
    ] as const) {
      const delay = getRetryDelayMs(index + 1, undefined, () => random)
      t.equal(delay, seconds && seconds * factor)
    }
})

t.test('Retry-After of a 429 or 503 makes a delay longer, up to 24 hours', async (t) => {
  const now = Date.UTC(2026, 10, 21, 9, 30)
  const headers: [status: number, header: unknown, expected: number | undefined][] = [
    [429, '120', 120_000],
    [503, '0', 0],
    [503, 'Sat, 21 Nov 2026 09:31:00 GMT', 60_000],
    [503, 'Sat, 21 Nov 2026 09:29:00 GMT', 0],
    [500, '120', undefined],
    [429, '-1', undefined],
    [429, '1.5', undefined],
    [429, 'soon', undefined],
    [429, undefined, undefined],
    [429, ['1', '2'], undefined],
  ]
  for (const [status, header, expected] of headers)
    t.equal(readRetryAfter(status, header, now), expected, `${status} ${header}`)
  const delays: [attempts: number, retryAfter: number, expected: number | null][] = [
    [1, 120, 120],
    [1, 1, 5],
    [1, 100 * DAY, DAY],
    [11, 1, null],
  ]
  for (const [attempts, retryAfter, expected] of delays) {
    const delay = getRetryDelayMs(attempts, retryAfter * 1_000, () => 0.5)
    t.equal(delay, expected && expected * 1_000, `attempt ${attempts}, ${retryAfter} s`)
  }
})
