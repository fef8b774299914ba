/** Finds the changes of an OpenAPI document that break clients, with api-smart-diff and the rules of this API. */
import { apiCompare, type Diff } from 'api-smart-diff'

const TYPE_ALTERNATIVE = 'application/vnd.api+json'

/** Returns the JSON Schema types of a `type` keyword; an integer is a number too. */
function listTypes(value: unknown): string[] {
  const types = (Array.isArray(value) ? value : [value]).map(String)
  return types.includes('number') ? [...types, 'integer'] : types
}

const isSubset = (types: unknown, others: unknown) => {
  const allowed = listTypes(others)
  return listTypes(types).every((type) => allowed.includes(type))
}

/** Whether a change below an operation breaks clients. Corrects api-smart-diff where this API is stricter or looser. */
function isBreaking({ type, action, path, before, after }: Diff): boolean {
  const [keyword, parent] = [path.at(-1), path.at(-2)]
  if (keyword === 'operationId') return true
  const isResponse = path.includes('responses')
  if (keyword === 'type' && parent !== 'properties') {
    // A type that says more in a response, or less in a request. api-smart-diff accepts both in responses.
    return isResponse ? !isSubset(after, before) : !isSubset(before, after)
  }
  if (isResponse) {
    // Clients must expect new codes of errors.
    return type === 'breaking' && !(path.includes('error') && path.includes('enum') && action === 'add')
  }
  // The server rejects unknown fields, so a removed field breaks clients that send it. api-smart-diff reports neither
  // that nor a field that has a default and becomes required.
  if (parent === 'properties' && action === 'remove') return true
  if (parent === 'required' && action === 'add') return true
  return type === 'breaking'
}

/** Returns the operation and the description of each breaking change. */
export function findBreakingChanges(before: unknown, after: unknown): string[] {
  const { diffs } = apiCompare(before, after)
  const changes = diffs
    // Components are compared where an operation uses them: in a request or in a response.
    .filter(({ path: [section] }) => section === 'paths')
    // Each body and response has the same schema in both media types.
    .filter(({ path }) => !path.some((key) => String(key).startsWith(TYPE_ALTERNATIVE)))
    .filter(isBreaking)
    .map(({ path, description }) => {
      const [, address, method = ''] = path
      return `${String(method).toUpperCase()} ${address}: ${description ?? path.join('.')}`
    })
  return [...new Set(changes)]
}
