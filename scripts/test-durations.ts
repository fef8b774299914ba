/** Runs all test files and stores the CPU time of each, by which `packages/testing/run/run-files.ts` balances processes. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'

const { stdout } = spawnSync(
  'npx',
  ['tap', '--reporter=tap', '--test-env=TEST_BUILD=1', '--test-env=TEST_KINDS=all'],
  {
    encoding: 'utf8',
    env: { ...process.env, TEST_DURATIONS: '1' },
    maxBuffer: 2 ** 30,
    stdio: ['ignore', 'pipe', 'inherit'],
  },
)
const durations = [...stdout.matchAll(/# duration (\S+) (\S+)/g)].map(([, path, seconds]) => [
  path,
  Number(seconds),
])
writeFileSync(
  new URL('../packages/testing/run/durations.json', import.meta.url),
  `${JSON.stringify(Object.fromEntries(durations.sort()), undefined, 2)}\n`,
)
