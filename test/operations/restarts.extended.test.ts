/**
 * A rolling restart behind a load balancer fails no request; `npm run soak -- restarts` does it for
 * minutes.
 */
import { test } from 'tap'
import { SERVER } from '../helpers/database.ts'
import { createServerSettings } from '../helpers/process.ts'
import { rollingRestarts } from '../soak/restarts.ts'

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

test('restarting two replicas behind a load balancer in turn fails no request', { skip }, async (t) => {
  const report = await rollingRestarts(t, {
    settings: await createServerSettings(t),
    restarts: 4,
    clients: 16,
    pause: 80,
    delay: 500,
  })
  t.strictSame(report.failed, [])
  t.strictSame(report.codes, [0, 0, 0, 0])
  t.equal(report.lost, 0)
  t.ok(report.answered > 500, `${report.answered} answered, ${report.written} of them writes`)
  t.ok(Math.max(...report.ends) < 4_000, `ended ${report.ends.map(Math.round)} ms after SIGTERM`)
})
