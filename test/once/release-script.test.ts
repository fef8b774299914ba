/** The release script updates changelog and version, commits and tags. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testFolder } from '../helpers/database.ts'

const loader = import.meta.resolve('../helpers/typescript.js')
const script = fileURLToPath(new URL('../../scripts/release.ts', import.meta.url))
const env = {
  PATH: process.env.PATH ?? '',
  ...{ GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
  ...{ GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' },
  ...{ GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' },
}
const documents = ['docs/openapi/v1.json', 'docs/openapi/v2.json']
const chart = 'deploy/helm/resource-api/Chart.yaml'
const dockerfile = 'FROM node\nARG VERSION=0.1.0\nARG REVISION=unknown\n'

const PACKAGE = `{
  "name": "api",
  "version": "0.1.0",
  "files": ["a", "b"],
  "dependencies": { "a": "0.1.0" }
}
`

const CHANGELOG = `# Changelog

## [Unreleased]

To be 0.2.0.

### Added

- Coupons.

## [0.1.0] - 2026-01-01

### Added

- Products.
`

/** Creates a repository with an empty remote, and returns functions that work on it. */
function createRepository(t: Test, changelog = CHANGELOG) {
  const folder = testFolder(t)
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, env, encoding: 'utf8' }).trim()
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
  git('init', '--quiet', '--initial-branch=main')
  git('init', '--quiet', '--bare', '.git/remote')
  git('remote', 'add', 'origin', '.git/remote')
  write('CHANGELOG.md', changelog)
  mkdirSync(join(folder, 'docs/openapi'), { recursive: true })
  for (const name of documents)
    write(name, '{ "info": { "version": "0.1.0" }, "x": { "version": "0.1.0" } }\n')
  write('package.json', PACKAGE)
  mkdirSync(join(folder, 'client'))
  write('client/package.json', '{ "version": "0.1.0", "dependencies": {} }\n')
  const others = '"client": { "version": "0.1.0" }, "node_modules/a": { "version": "0.1.0" }'
  const own = '"": { "name": "api", "version": "0.1.0", "dependencies": { "a": "0.1.0" } }'
  write(
    'package-lock.json',
    `{ "name": "api", "version": "0.1.0", "lockfileVersion": 3, "packages": { ${own}, ${others} } }\n`,
  )
  mkdirSync(join(folder, 'deploy/helm/resource-api'), { recursive: true })
  write(chart, 'name: api\nversion: 0.1.0\nappVersion: 0.1.0\n')
  write('Dockerfile', dockerfile)
  git('add', '--all')
  git('commit', '--quiet', '--message', 'first')
  const release = (...args: string[]) =>
    spawnSync(process.execPath, ['--import', loader, script, ...args], { cwd: folder, env, encoding: 'utf8' })
  return { git, read, write, release }
}

t.test('a release updates the changelog and the version, commits and tags', async (t) => {
  const { git, read, release } = createRepository(t)
  const { status, stderr } = release('0.2.0')
  t.equal(status, 0, stderr)
  const date = new Date().toISOString().slice(0, 10)
  const moved = CHANGELOG.replace('To be 0.2.0.\n', `## [0.2.0] - ${date}\n`)
  t.equal(read('CHANGELOG.md'), moved)
  t.equal(read('package.json'), PACKAGE.replace('"version": "0.1.0"', '"version": "0.2.0"'))
  const lock = JSON.parse(read('package-lock.json'))
  const { '': own, client, 'node_modules/a': dependency } = lock.packages
  const next = { version: '0.2.0' }
  t.match([lock, own, client, JSON.parse(read('client/package.json'))], [next, next, next, next])
  t.equal(dependency.version, '0.1.0', 'a dependency keeps its version')
  for (const name of documents) {
    t.same(JSON.parse(read(name)), { info: { version: '0.2.0' }, x: { version: '0.1.0' } }, name)
  }
  t.equal(read(chart), 'name: api\nversion: 0.2.0\nappVersion: 0.2.0\n')
  t.equal(read('Dockerfile'), dockerfile.replace('0.1.0', '0.2.0'))
  t.equal(git('status', '--porcelain'), '')
  t.equal(git('log', '-1', '--format=%s'), 'release: 0.2.0')
  t.equal(git('rev-parse', 'v0.2.0^{commit}'), git('rev-parse', 'HEAD'))
  t.equal(
    git('tag', '--list', '--format=%(contents)'),
    '0.2.0\n\n### Added\n\n- Coupons.',
    'the tag has the notes',
  )
  t.equal(git('ls-remote', 'origin'), '', 'nothing is pushed')
})

t.test('a release that fails changes nothing', async (t) => {
  const empty = '# Changelog\n\n## [Unreleased]\n\nTo be 0.2.0.\n\n## [0.1.0] - 2026-01-01\n\n- Products.\n'
  const cases: [string, string[], string, ((git: ReturnType<typeof createRepository>) => void)?][] = [
    [CHANGELOG, [], 'Usage: '],
    [CHANGELOG, ['v0.2.0'], 'Usage: '],
    [CHANGELOG, ['0.1.0'], 'CHANGELOG.md has 0.1.0 already'],
    ['# Changelog\n', ['0.2.0'], 'CHANGELOG.md has no section'],
    [empty, ['0.2.0'], 'is empty'],
    [CHANGELOG, ['0.2.0'], 'The tag v0.2.0 exists already', ({ git }) => git('tag', 'v0.2.0')],
    [CHANGELOG, ['0.2.0'], 'The working tree has changes', ({ write }) => write('new.txt', 'new')],
  ]
  for (const [changelog, args, message, prepare] of cases) {
    const repository = createRepository(t, changelog)
    prepare?.(repository)
    const before = repository.git('status', '--porcelain')
    const { status, stderr } = repository.release(...args)
    t.equal(status, 1, message)
    t.match(stderr, message)
    t.equal(repository.git('log', '--format=%s'), 'first')
    t.equal(repository.git('status', '--porcelain'), before)
  }
})
