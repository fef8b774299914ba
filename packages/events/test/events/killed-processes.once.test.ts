/** Each committed change has its event after kill -9 of the server and of PostgreSQL; `npm run soak -- events` repeats this. */
import t from 'tap'
import { eventRounds } from '../../../../bench/soak/events.ts'
import { findBinFolder } from '../../../../bench/soak/private-postgres.ts'

const skip = findBinFolder() === undefined && 'PostgreSQL is not installed'

t.test('events reach all consumers although server and PostgreSQL are killed', { skip }, async (t) => {
  const report = await eventRounds(t, { rounds: 2, clients: 4, between: [300, 600], isShort: true })
  t.strictSame(report.violations, [])
  t.ok(report.events > 0, `${report.events} events of ${report.writes.acknowledged} acknowledged writes`)
  const { server, postgres } = report.recoveryTimes
  t.strictSame([server.length, postgres.length], [1, 1], 'one kill of each')
})
