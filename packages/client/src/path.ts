/** Inserts the ids of a call into its path, and writes its lists. */
import { defaultPathSerializer } from 'openapi-fetch'

/** The id of a resource: a number where the database counts, otherwise a text. */
export type ResourceId = string | number

/** Returns a query whose lists have a backslash before the commas and backslashes of their values. */
export const escapeLists = (query: object): object =>
  Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      Array.isArray(value)
        ? value.map((each) => (typeof each === 'string' ? each.replaceAll(/[\\,]/g, '\\$&') : each))
        : value,
    ]),
  )

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
