/**
 * Refuses a version of Node.js that is not supported. An entry file calls this before it imports anything else, dynamically:
 * with static imports, an old version would fail on their syntax or on a missing export first.
 */

/** As in `engines` of package.json: this minor version and later of the first one, and everything from the second on. */
export const NODE_VERSIONS = ['20.19', '22.12'] as const

/** @returns the message for a version that is too old, else undefined */
export function describeOldNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isSupported = NODE_VERSIONS.some((first, i) => {
    const [firstMajor = 0, firstMinor = 0] = first.split('.').map(Number)
    if (major === firstMajor) return minor >= firstMinor
    return major > firstMajor && i === NODE_VERSIONS.length - 1
  })
  if (isSupported) return undefined
  const [old, rest] = NODE_VERSIONS
  return `Node.js ${old}, or ${rest} or later, is required; this is ${version}`
}

/** Ends the process with exit code 1 if its Node.js is too old. */
export function requireNodeVersion(): void {
  const message = describeOldNode(process.versions.node)
  if (message === undefined) return
  console.error(message)
  process.exit(1)
}
