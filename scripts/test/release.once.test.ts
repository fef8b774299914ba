/**
 * A release, end to end: the script in a clone, its push to a remote, and there the steps of the workflow. What these ask
 * of the registry of packages, Docker, cosign and GitHub is recorded.
 */
import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { clone, cloneProduct, commitAll, git, linkPackages, root, runIn } from './git-clone.ts'

const VERSION = '99.0.0'
const ENTRY = '- An entry of the test of releases.'

interface Step {
  name?: string
  uses?: string
  run?: string
}

interface Workflow {
  permissions: Record<string, string>
  jobs: Record<string, { needs?: string | string[]; permissions?: Record<string, string>; steps?: Step[] }>
}

const readWorkflow = (name: string): Workflow =>
  parse(readFileSync(join(root, `.github/workflows/${name}.yml`), 'utf8'))

/** Writes programs that append their arguments to a file. */
function writePrograms(folder: string, npm: string) {
  const record = `printf '%s' "\${0##*/}" >> "$RECORD"; printf ' %q' "$@" >> "$RECORD"; echo >> "$RECORD"`
  const programs = {
    docker: `${record}\ncase "$*" in *inspect*) echo sha256:0123 ;; create*) echo container ;; login*) cat > /dev/null ;; esac`,
    cosign: record,
    gh: record,
    npm: `${record}\ncase $* in ci* | publish* | view* | 'run build') exit ;; esac\nexec ${npm} "$@"`,
  }
  mkdirSync(folder)
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/bash\n${script}\n`)
    chmodSync(join(folder, name), 0o755)
  }
}

const folder = testFolder(t)
const [work, remote] = [join(folder, 'work'), join(folder, 'remote')]
cloneProduct(work)
linkPackages(work)
git(folder, 'init', '--quiet', '--bare', remote)
git(work, 'remote', 'set-url', 'origin', remote)
const changelog = join(work, 'CHANGELOG.md')
const released = readFileSync(changelog, 'utf8')
const unreleased = released.replace(
  '## [Unreleased]\n',
  `## [Unreleased]\n\nTo be ${VERSION}.\n\n### Fixed\n\n${ENTRY}\n`,
)
writeFileSync(changelog, unreleased)
commitAll(work, 'An entry')

const release = (...args: string[]) => runIn(work, 'npm', 'run', '--silent', 'release', '--', ...args)

t.test('a release that fails changes nothing', async (t) => {
  const head = git(work, 'rev-parse', 'HEAD')
  const empty = `# Changelog\n\n## [Unreleased]\n\nTo be ${VERSION}.\n\n## [0.0.1] - 2026-01-01\n\n- Products.\n`
  const writeChangelog = (text: string) => () => {
    writeFileSync(changelog, text)
    commitAll(work, 'Another changelog')
  }
  const cases: [args: string[], message: string, prepare?: () => unknown][] = [
    [[], 'Usage: '],
    [[`v${VERSION}`], 'Usage: '],
    [['0.0.1'], 'CHANGELOG.md has 0.0.1 already', writeChangelog(empty)],
    [[VERSION], 'CHANGELOG.md has no section', writeChangelog('# Changelog\n')],
    [[VERSION], 'is empty', writeChangelog(empty)],
    [[VERSION], `The tag v${VERSION} exists already`, () => git(work, 'tag', `v${VERSION}`)],
    [[VERSION], 'The working tree has changes', () => writeFileSync(join(work, 'new.txt'), 'new')],
  ]
  for (const [args, message, prepare] of cases) {
    prepare?.()
    const readState = () => git(work, 'rev-parse', 'HEAD') + git(work, 'status', '--porcelain')
    const before = readState()
    const { code, output } = release(...args)
    t.equal(code, 1, message)
    t.match(output, message)
    t.equal(readState(), before)
    git(work, 'reset', '--quiet', '--hard', head)
    git(work, 'clean', '--quiet', '--force')
    runIn(work, 'git', 'tag', '--delete', `v${VERSION}`)
  }
})

t.test('a release updates the changelog and the version, commits and tags', async (t) => {
  const { code, output } = release(VERSION)
  t.equal(code, 0, output)
  const date = new Date().toISOString().slice(0, 10)
  const moved = unreleased.replace(`To be ${VERSION}.\n`, `## [${VERSION}] - ${date}\n`)
  t.equal(readFileSync(changelog, 'utf8'), moved)
  const changes = git(work, 'diff', '--unified=0', 'HEAD~1', '--', '.', ':!CHANGELOG.md').split(
    /^diff .* b\//m,
  )
  const counts = changes.slice(1).map((change) => {
    const lines = change.match(/^\+(?!\+).*/gm) ?? []
    t.ok(lines.every((line) => line.includes(VERSION)))
    return `${change.split('\n', 1)[0]} ${lines.length}`
  })
  t.same(counts, [
    'Dockerfile 1',
    'deploy/helm/resource-api/Chart.yaml 2',
    'docs/openapi/v1.json 1',
    'docs/openapi/v2.json 1',
    'package-lock.json 64',
    'package.json 9',
    ...[
      'accounts 7',
      'api 2',
      'cli 3',
      'client 1',
      'create 5',
      'database 1',
      'docs 8',
      'events 9',
      'http 4',
      'resources 5',
      'testing 7',
      'work 2',
    ].map((each) => `packages/${each.replace(' ', '/package.json ')}`),
  ])
  // As npm writes it, of the manifests.
  const before = readFileSync(join(work, 'package-lock.json'), 'utf8')
  t.match(runIn(work, 'npm', 'install', '--package-lock-only', '--offline', '--ignore-scripts'), { code: 0 })
  t.equal(readFileSync(join(work, 'package-lock.json'), 'utf8'), before)
  t.equal(git(work, 'status', '--porcelain'), '')
  t.equal(git(work, 'log', '-1', '--format=%s'), `release: ${VERSION}`)
  t.equal(git(work, 'rev-parse', `v${VERSION}^{commit}`), git(work, 'rev-parse', 'HEAD'))
  const notes = git(work, 'tag', '--list', `v${VERSION}`, '--format=%(contents)')
  t.ok(notes.startsWith(`${VERSION}\n\n### Fixed\n\n${ENTRY}`), 'the tag has the notes')
  t.equal(git(work, 'ls-remote', 'origin'), '', 'nothing is pushed')
})

t.test('a release that is pushed publishes the image, the packages and the notes', async (t) => {
  git(work, 'push', '--quiet', '--follow-tags', 'origin', 'main')
  const checkout = join(folder, 'checkout')
  clone(remote, checkout)
  git(checkout, 'checkout', '--quiet', `v${VERSION}`)
  linkPackages(checkout)
  const programs = join(folder, 'programs')
  writePrograms(programs, execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())
  const record = join(folder, 'record')
  const env = {
    ...process.env,
    ...{ PATH: `${programs}:${process.env.PATH}`, HOME: folder, RECORD: record, TAG: `v${VERSION}` },
    ...{ GITHUB_REPOSITORY: 'Ada/Api', GITHUB_SERVER_URL: 'https://git.example', GITHUB_ACTOR: 'ada' },
    ...{ GITHUB_SHA: git(checkout, 'rev-parse', 'HEAD'), ARCH: 'arm64', TOKEN: 'token' },
    ...{
      npm_config_registry: 'https://registry.example/',
      npm_config_userconfig: join(folder, '.npmrc'),
      NPM_TOKEN: 'secret',
      npm_config_ignore_scripts: 'false',
    },
  }
  const bash = (script: string) =>
    promisify(execFile)('bash', ['-eo', 'pipefail', '-c', script], { cwd: checkout, env })
  /** Runs the commands of a job, and returns those that were recorded. */
  const runJob = async (name: string) => {
    writeFileSync(record, '')
    for (const { run } of readWorkflow('release').jobs[name]?.steps ?? []) {
      if (run !== undefined) await bash(run)
    }
    return readFileSync(record, 'utf8').trim().split('\n')
  }

  await t.test('the tag is the version, and another one is refused', async (t) => {
    await runJob('version')
    git(checkout, 'tag', 'v98.0.0')
    env.TAG = 'v98.0.0'
    await t.rejects(runJob('version'))
    env.TAG = `v${VERSION}`
  })

  await t.test('the image of an architecture has the version and the commit', async (t) => {
    const image = `ghcr.io/ada/api:${VERSION}-arm64`
    const [, build, push] = await runJob('build')
    t.match(
      build,
      `docker build --tag ${image} --build-arg VERSION=${VERSION} --build-arg REVISION=${env.GITHUB_SHA}`,
    )
    t.equal(push, `docker push ${image}`)
  })

  await t.test('all packages are published in one version, with their provenance', async (t) => {
    const names = readdirSync(join(checkout, 'packages')).filter((name) =>
      existsSync(join(checkout, `packages/${name}/package.json`)),
    )
    t.same(
      (await runJob('packages')).filter((line) => line.startsWith('npm publish')),
      names.map(
        (name) => `npm publish --workspace packages/${name} --access public --provenance --tag latest`,
      ),
    )
    t.match(readFileSync(join(folder, '.npmrc'), 'utf8'), '//registry.example/:_authToken=secret')
    // The files of the packages are tested in created-application.once.test.ts.
    for (const name of names)
      t.match(JSON.parse(readFileSync(join(checkout, `packages/${name}/package.json`), 'utf8')), {
        ...{ version: VERSION, license: 'MIT', private: undefined },
        repository: {
          type: 'git',
          url: 'git+https://git.example/Ada/Api.git',
          directory: `packages/${name}`,
        },
        homepage: `https://git.example/Ada/Api/tree/v${VERSION}/packages/${name}#readme`,
        bugs: { url: 'https://git.example/Ada/Api/issues' },
      })
  })

  await t.test('the image of both is signed, and the release has the notes of the changelog', async (t) => {
    const image = `ghcr.io/ada/api:${VERSION}`
    const commands = (await runJob('release')).filter((line) => !line.startsWith('docker login'))
    t.same(commands, [
      `docker buildx imagetools create --tag ${image} ${image}-amd64 ${image}-arm64`,
      `docker buildx imagetools inspect ${image} --format \\{\\{.Manifest.Digest\\}\\}`,
      'cosign sign --yes --recursive ghcr.io/ada/api@sha256:0123',
      'docker create ghcr.io/ada/api@sha256:0123',
      'docker cp container:/app/sbom.cdx.json .',
      `gh release create v${VERSION} sbom.cdx.json --title v${VERSION} --verify-tag --notes-file notes.md --latest`,
    ])
    const notes = readFileSync(join(checkout, 'notes.md'), 'utf8')
    t.match(notes, new RegExp(`^### Fixed\n\n${ENTRY}\n`))
    t.notMatch(notes, /^## /m)
  })
})

t.test('the workflows name each action by its commit, and give rights to single jobs', async (t) => {
  for (const name of ['ci', 'release']) {
    const { permissions, jobs } = readWorkflow(name)
    t.same(permissions, { contents: 'read' }, name)
    for (const { uses } of Object.values(jobs).flatMap(({ steps = [] }) => steps)) {
      if (uses !== undefined) t.match(uses, /^[\w-]+\/[\w-]+@[0-9a-f]{40}$/)
    }
  }
  const { jobs } = readWorkflow('release')
  const signing = Object.entries(jobs).filter(([, job]) => job.permissions?.['id-token'] === 'write')
  t.same(
    signing.map(([name]) => name),
    ['packages', 'release'],
  )
  t.same([jobs.packages?.needs, jobs.build?.needs, jobs.release?.needs], ['ci', 'ci', ['build', 'packages']])
})
