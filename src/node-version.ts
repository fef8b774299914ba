/**
 * Refuses a version of Node.js that is too old. An entry file calls this before it imports anything else, dynamically:
 * with static imports, an old version would fail on their syntax or on a missing export first.
 */
import { identity } from '../lib/identity.ts'

/** As in `engines` of package.json. */
export const MIN_NODE_VERSION = '20.19'

/** @returns the message for a version that is too old, else undefined */
export function describeOldNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [minMajor = 0, minMinor = 0] = MIN_NODE_VERSION.split('.').map(Number)
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return undefined
  return `${identity.name} requires Node.js ${MIN_NODE_VERSION} or later; this is ${version}`
}

/** Ends the process with exit code 1 if its Node.js is too old. */
export function requireNodeVersion(): void {
  const message = describeOldNode(process.versions.node)
  if (message === undefined) return
  console.error(message)
  process.exit(1)
}
