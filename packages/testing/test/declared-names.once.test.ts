/** The checks know built-in collections by the names that the application declares. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { declareApplication } from '../helpers/application.ts'

t.setTimeout(600_000)

const root = fileURLToPath(new URL('../../..', import.meta.url))
const NAMES = {
  'api-keys': 'keys',
  deliveries: 'sent',
  events: 'changes',
  replays: 'repeats',
  sessions: 'logins',
  'webhook-endpoints': 'hooks',
}

t.test('all checks pass with other names of all built-in collections', async (t) => {
  const declared = `roles: ['member', 'manager', 'admin'], staff: ['manager'], names: ${JSON.stringify(NAMES)}`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      ...['--conditions=resource-api', '--import=./packages/testing/run/typescript.js'],
      ...declareApplication(declared, false),
      'packages/testing/helpers/renamed-checks.ts',
    ],
    { cwd: root, encoding: 'utf8', env: { PATH: process.env.PATH }, maxBuffer: 1e9 },
  )
  const failed = stdout.match(/^ *not ok .*/gm) ?? []
  t.same(failed, [])
  t.equal(status, 0, stderr.slice(-2_000))
})
