/** `npm run release -- 0.1.0`: moves the changelog's Unreleased section under a version, commits and tags. Never pushes. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** A semantic version (https://semver.org) without build metadata. */
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$/
const UNRELEASED = '## [Unreleased]'
/** The packages of this repository, whose versions are in step. */
const SCOPE = '@resource-api/'

/** The OpenAPI documents, whose first version is that of the release. */
const DOCUMENTS = ['docs/openapi/v1.json', 'docs/openapi/v2.json']

/** Other lines with the version of the release, by file: of the Helm chart, and of an image that is built by hand. */
const VERSION_LINES: readonly [string, RegExp][] = [
  ['deploy/helm/resource-api/Chart.yaml', /^((?:version|appVersion): ).*$/gm],
  ['Dockerfile', /^(ARG VERSION=).*$/m],
]

class ReleaseError extends Error {}

const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim()

function checkRepository(tag: string) {
  if (git('status', '--porcelain') !== '') {
    throw new ReleaseError('The working tree has changes; commit or remove them first')
  }
  if (git('tag', '--list', tag) !== '') throw new ReleaseError(`The tag ${tag} exists already`)
}

/** Returns the entries of Unreleased, and the changelog with them under the version, below an empty Unreleased. */
function moveUnreleased(changelog: string, version: string, date: string) {
  const [before, after] = changelog.split(`${UNRELEASED}\n`)
  if (before === undefined || after === undefined) {
    throw new ReleaseError(`CHANGELOG.md has no section "${UNRELEASED}"`)
  }
  if (after.includes(`\n## [${version}]`)) throw new ReleaseError(`CHANGELOG.md has ${version} already`)
  const next = after.search(/^## /m)
  const section = next === -1 ? after : after.slice(0, next)
  const entries = section.replace(/^To be .*\.$/m, '').trim()
  if (entries === '') throw new ReleaseError('The Unreleased section of CHANGELOG.md is empty')
  const older = after.slice(section.length)
  const released = `${before}${UNRELEASED}\n\n## [${version}] - ${date}\n\n${entries}\n`
  return { entries, changelog: older === '' ? released : `${released}\n${older}` }
}

/** Replaces the first version of a document; edits the text, so that its formatting stays. */
function setDocumentVersion(file: string, version: string) {
  writeFileSync(file, readFileSync(file, 'utf8').replace(/"version": "[^"]*"/, `"version": "${version}"`))
}

interface Manifest {
  version?: string
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

interface LockFile extends Manifest {
  packages: Record<string, Manifest>
}

/** Sets the version of a package, and of those of this repository that it depends on. */
function setVersion(manifest: Manifest, version: string) {
  manifest.version = version
  const { dependencies = {}, devDependencies = {}, peerDependencies = {} } = manifest
  for (const group of [dependencies, devDependencies, peerDependencies])
    for (const name of Object.keys(group)) if (name.startsWith(SCOPE)) group[name] = version
}

/** Rewrites a file as npm writes it. */
function changeJson<T>(file: string, change: (content: T) => void) {
  const content: T = JSON.parse(readFileSync(file, 'utf8'))
  change(content)
  writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`)
}

function setPackageVersions(version: string) {
  const folders = readdirSync('packages').map((name) => `packages/${name}`)
  for (const file of ['package.json', ...folders.map((folder) => `${folder}/package.json`)])
    changeJson<Manifest>(file, (manifest) => setVersion(manifest, version))
  changeJson<LockFile>('package-lock.json', (lock) => {
    lock.version = version
    for (const [folder, manifest] of Object.entries(lock.packages))
      if (folder === '' || folders.includes(folder)) setVersion(manifest, version)
  })
}

function setVersionLines(version: string) {
  for (const [file, pattern] of VERSION_LINES) {
    writeFileSync(file, readFileSync(file, 'utf8').replace(pattern, `$1${version}`))
  }
}

function release(version: string | undefined) {
  if (version === undefined || !VERSION.test(version)) {
    throw new ReleaseError('Usage: npm run release -- VERSION, for example 0.1.0')
  }
  const tag = `v${version}`
  checkRepository(tag)
  const date = new Date().toISOString().slice(0, 'YYYY-MM-DD'.length)
  const { entries, changelog } = moveUnreleased(readFileSync('CHANGELOG.md', 'utf8'), version, date)
  writeFileSync('CHANGELOG.md', changelog)
  setPackageVersions(version)
  for (const file of DOCUMENTS) setDocumentVersion(file, version)
  setVersionLines(version)
  git('commit', '--quiet', '--all', '--message', `release: ${version}`)
  // The notes of the release, whose headings are comments otherwise.
  git('tag', '--annotate', tag, '--cleanup=whitespace', '--message', version, '--message', entries)
  console.log(`Committed and tagged ${tag}. To publish it: git push --follow-tags`)
}

try {
  release(process.argv[2])
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
