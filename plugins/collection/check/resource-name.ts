/** Checks the name of a resource: the first segment of its paths, in which the service has others of its own. */

const KEBAB_CASE = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/

/** The segment that names a version: `/v2/users`. */
const VERSION = /^v\d+$/

/**
 * Segments with another meaning, and names that the API promises for what no definition describes. Names of the
 * service's own definitions are not among them: no two resources may have the same name.
 */
const RESERVED = new Set([
  ...['api', 'docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'account', 'me'],
  ...['tokens', 'secrets', 'batches', 'password-resets', 'email-verifications'],
  // A property of every object, so that records by name seem to have it.
  'constructor',
])

/** Returns whether a text is in kebab-case and names no version. */
export const isResourceName = (name: string): boolean => KEBAB_CASE.test(name) && !VERSION.test(name)

export const isReservedName = (name: string): boolean => RESERVED.has(name)
