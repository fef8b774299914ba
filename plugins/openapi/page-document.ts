/** Adapts the OpenAPI document of a version to the documentation page. */
import { isObject } from '../../lib/is-object.ts'
import { toWords } from '../../lib/to-words.ts'
import type { Version } from '../versioning/index.ts'
import type { Json } from './components.ts'
import { getPageGuide } from './guide.ts'
import { commonHeadersGuide } from './headers.ts'

const omit = (object: unknown, ...names: readonly string[]): Json =>
  Object.fromEntries(Object.entries(isObject(object) ? object : {}).filter(([name]) => !names.includes(name)))

/** Returns the title of a group of operations: `API keys` for `api-keys`. */
const getDisplayName = (name: string) => toWords(name).replace(/^./, (first) => first.toUpperCase())

/** Adds the title that Scalar shows instead of the name. */
const withDisplayName = (tag: unknown) =>
  isObject(tag) ? { ...tag, 'x-displayName': getDisplayName(String(tag.name)) } : tag

const getParameters = (value: unknown): unknown[] =>
  isObject(value) && Array.isArray(value.parameters) ? value.parameters : []

/**
 * Returns the operations of a path without their security. Each has the parameters that all of them share: Scalar shows
 * neither the types nor the descriptions of references at the path.
 */
function toPagePath(path: unknown): Json {
  const shared = getParameters(path)
  return Object.fromEntries(
    Object.entries(omit(path, 'parameters')).map(([method, operation]) => [
      method,
      { ...omit(operation, 'security'), parameters: [...shared, ...getParameters(operation)] },
    ]),
  )
}

const toPagePaths = (paths: unknown): Json =>
  Object.fromEntries(
    Object.entries(isObject(paths) ? paths : {}).map(([name, path]) => [name, toPagePath(path)]),
  )

/**
 * Returns a copy of a document with the longer introduction of the page. It names no credentials: the page has its own
 * form for them, and sends the one credential that is active.
 */
export function toPageDocument(document: Json, { representation }: Version): Json {
  const { version, about } = representation
  const guide = getPageGuide({ version, about, hasEvents: document.webhooks !== undefined })
  return {
    ...omit(document, 'externalDocs', 'security'),
    info: {
      ...omit(document.info, 'contact', 'license'),
      description: `${guide}\n\n${commonHeadersGuide}`,
    },
    tags: Array.isArray(document.tags) ? document.tags.map(withDisplayName) : [],
    paths: toPagePaths(document.paths),
    ...(isObject(document.webhooks) && { webhooks: toPagePaths(document.webhooks) }),
    components: omit(document.components, 'securitySchemes'),
  }
}
