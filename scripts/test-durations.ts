/** Runs all test files and stores the CPU time of each, by which `test/helpers/run-files.ts` balances processes. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'

const lanes = ['first', 'second', 'third', 'third-own-list'].flatMap((name) => [name, `${name}.extended`])
const { stdout } = spawnSync(
  'npx',
  ['tap', '--reporter=tap', '--test-env=TEST_BUILD=1', ...lanes.map((name) => `test/lanes/${name}.test.ts`)],
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
  new URL('../test/lanes/durations.json', import.meta.url),
  `${JSON.stringify(Object.fromEntries(durations.sort()), undefined, 2)}\n`,
)
