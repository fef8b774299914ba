/** Finds the changes of an OpenAPI document that break clients, with api-smart-diff and the rules of this API. */
import { apiCompare, type Diff } from 'api-smart-diff'
import { isObject } from '../packages/database/src/lib/is-object.ts'

/** Media types whose bodies have the same schemas as `application/json`. They are not compared. */
const OTHER_MEDIA_TYPES = ['application/vnd.api+json', 'application/merge-patch+json']
const isOtherMediaType = (key: string) => OTHER_MEDIA_TYPES.some((name) => key.startsWith(name))

/** Returns the value that a reference such as `#/components/schemas/Product` names. */
function findReferenced(document: unknown, reference: string): unknown {
  return reference
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((node, key) => (isObject(node) ? node[key] : undefined), document)
}

/**
 * Returns a part of a document with the components instead of the references to them. api-smart-diff resolves only
 * some of them, so that a component in place of an equal definition would be a change.
 * @param open the references around the part: a recursive one stays
 */
function inlineComponents(part: unknown, document: unknown, open: readonly string[] = []): unknown {
  if (Array.isArray(part)) return part.map((item) => inlineComponents(item, document, open))
  if (!isObject(part)) return part
  const { $ref, ...rest } = part
  const own = Object.fromEntries(
    Object.entries(rest)
      .filter(([key]) => !isOtherMediaType(key))
      .map(([key, value]) => [key, inlineComponents(value, document, open)]),
  )
  if (typeof $ref !== 'string') return own
  if (open.includes($ref)) return part
  const component = inlineComponents(findReferenced(document, $ref), document, [...open, $ref])
  return isObject(component) ? { ...component, ...own } : own
}

/** Returns the operations of a document by path and method, each with the parameters of its path. */
function listOperations(document: unknown): Record<string, unknown> {
  const paths = isObject(document) ? inlineComponents(document.paths, document) : undefined
  const operations = Object.entries(isObject(paths) ? paths : {}).map(([path, item]) => {
    const { parameters, ...methods } = isObject(item) ? item : {}
    const shared = Array.isArray(parameters) ? parameters : []
    const complete = Object.entries(methods).map(([method, operation]) => {
      if (!isObject(operation)) return [method, operation]
      const own = Array.isArray(operation.parameters) ? operation.parameters : []
      return [method, { ...operation, parameters: [...shared, ...own] }]
    })
    return [path, Object.fromEntries(complete)]
  })
  return Object.fromEntries(operations)
}

const toComparable = (document: unknown) => ({
  openapi: '3.1.0',
  info: { title: 'resource-api', version: '0.0.0' },
  paths: listOperations(document),
})

/** Returns the JSON Schema types of a `type` keyword; an integer is a number too. */
function listTypes(value: unknown): string[] {
  const types = (Array.isArray(value) ? value : [value]).map(String)
  return types.includes('number') ? [...types, 'integer'] : types
}

const isSubset = (types: unknown, others: unknown) => {
  const allowed = listTypes(others)
  return listTypes(types).every((type) => allowed.includes(type))
}

/** Whether a change of an operation breaks clients. Corrects api-smart-diff where this API is stricter or looser. */
function isBreaking({ type, action, path, before, after }: Diff): boolean {
  const [keyword, parent] = [path.at(-1), path.at(-2)]
  if (keyword === 'operationId') return true
  const isResponse = path.includes('responses')
  if (keyword === 'type' && parent !== 'properties' && action === 'replace') {
    // A response may not have more types than before, and a request not fewer.
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
  const { diffs } = apiCompare(toComparable(before), toComparable(after))
  const changes = diffs.filter(isBreaking).map(({ path, description }) => {
    const [, address, method = ''] = path
    return `${String(method).toUpperCase()} ${address}: ${description || path.slice(3).join('.')}`
  })
  return [...new Set(changes)]
}
