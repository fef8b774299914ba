/**
 * `npm run openapi:diff`: compares the OpenAPI documents with those of the last release, and fails on changes that break
 * clients. They are allowed if the changelog announces them or the version does.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { findBreakingChanges } from './breaking-changes.ts'

const DOCUMENTS = ['docs/openapi/v1.json', 'docs/openapi/v2.json']

/** Returns the output of git, or undefined if it fails. */
function git(...args: string[]): string | undefined {
  try {
    return execFileSync('git', args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 64 * 1024 * 1024,
    }).trim()
  } catch {
    return undefined
  }
}

/** Returns the part of a version that increases when something breaks: `2`, or before 1.0.0 `0.3`. */
function getCompatibleVersion(version: string): string {
  const [major = '', minor = ''] = version.split('.')
  return major === '0' ? `0.${minor}` : major
}

/** Returns whether the Unreleased section of the changelog, or a new major version, announces breaking changes. */
function isAnnounced(tag: string): boolean {
  const unreleased = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m)[1] ?? ''
  const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))
  return (
    (unreleased.startsWith('[Unreleased]') && /^### Breaking$/m.test(unreleased)) ||
    getCompatibleVersion(version) !== getCompatibleVersion(tag.slice(1))
  )
}

function compareWithRelease() {
  const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v[0-9]*')
  if (tag === undefined) {
    console.log('There is no release tag yet: nothing to compare with')
    return
  }
  const changes = DOCUMENTS.flatMap((name) => {
    const released = git('show', `${tag}:${name}`)
    if (released === undefined) return []
    return findBreakingChanges(JSON.parse(released), JSON.parse(readFileSync(name, 'utf8')))
  })
  console.log(`${changes.length} breaking changes since ${tag}`)
  for (const change of changes) console.log(`- ${change}`)
  if (changes.length === 0) return
  if (isAnnounced(tag)) {
    console.log('The changelog or the version announces them')
    return
  }
  console.error(
    'Undo them, or announce them: under "### Breaking" in the Unreleased section of CHANGELOG.md, or with a new major ' +
      'version (before 1.0.0: minor) in package.json',
  )
  process.exitCode = 1
}

compareWithRelease()
