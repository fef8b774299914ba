/** Inserts the ids of a call into its path. */
import { defaultPathSerializer } from 'openapi-fetch'

/**
 * Inserts parameters into a path.
 * @throws TypeError if a parameter would lead to another path: URLs remove the segments "", "." and "..", also encoded
 */
export function serializePath(path: string, parameters: Record<string, unknown>): string {
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || ['', '.', '..'].includes(String(value))) {
      throw new TypeError(`The path parameter "${name}" must be an id, and is ${JSON.stringify(value)}`)
    }
  }
  return defaultPathSerializer(path, parameters)
}
