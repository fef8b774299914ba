/** Acknowledged writes survive kill -9 and SIGTERM; `npm run soak -- kill` repeats this forty times. */
import { test } from 'tap'
import { createServerSettings } from '../helpers/process.ts'
import { killRounds } from '../soak/kill.ts'

const OPTIONS = { rounds: 1, clients: 4, between: [300, 600] } as const

test('a server killed during writes restarts with every acknowledged write', async (t) => {
  const report = await killRounds(t, { settings: await createServerSettings(t), ...OPTIONS })
  t.strictSame(report.violations, [])
  t.ok(report.acknowledged > 10, `${report.acknowledged} writes acknowledged`)
})

test('a server stopped during writes completes them and loses none', async (t) => {
  const settings = await createServerSettings(t)
  const report = await killRounds(t, { settings, ...OPTIONS, signal: 'SIGTERM' })
  t.strictSame(report.violations, [])
  t.ok(report.acknowledged > 10, `${report.acknowledged} writes acknowledged`)
  t.strictSame(report.ends, [{ code: 0, signal: null }])
  t.equal(report.unknownMade, 0, 'each write that was made has its response')
})
