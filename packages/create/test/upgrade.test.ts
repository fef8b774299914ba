/** `resource-api upgrade` gives an application the versions of the dependencies that it shares with its packages. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { upgrade } from '../src/upgrade.ts'

const root = mkdtempSync(join(tmpdir(), 'resource-api-test-'))
t.teardown(() => rmSync(root, { recursive: true }))

const write = (path: string, content: object) => {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), JSON.stringify(content))
}

t.test('what both import has the version of the packages', async (t) => {
  const own = { '@resource-api/http': '^0.1.0', fastify: '5.0.0', other: '1.0.0' }
  write('package.json', { name: 'api', dependencies: own })
  write('node_modules/@resource-api/http/package.json', {})
  const shared = { fastify: '5.0.1', '@resource-api/http': '0.10.0' }
  write('node_modules/@resource-api/resources/package.json', { dependencies: shared })
  const lines = t.capture(console, 'log')
  upgrade([], root)
  upgrade([], root)
  t.same(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')), {
    name: 'api',
    dependencies: { ...own, fastify: '5.0.1' },
  })
  t.match(lines.args(), [[/the versions of fastify are/], ['package.json has the versions of the packages']])
})

t.test('a folder without an application, and arguments, are refused', async (t) => {
  rmSync(join(root, 'node_modules'), { recursive: true })
  t.throws(() => upgrade([], root), {
    name: 'UsageError',
    message: /has no package\.json with installed packages/,
  })
  t.throws(() => upgrade(['--force'], root), { name: 'UsageError' })
})
