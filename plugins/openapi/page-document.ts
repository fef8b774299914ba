/** Adapts the OpenAPI document of a version to the documentation page. */
import { isObject } from '../../lib/is-object.ts'
import type { Version } from '../versioning/index.ts'
import type { Json } from './components.ts'
import { getPageGuide } from './guide.ts'
import { commonHeadersGuide } from './headers.ts'

const omit = (object: unknown, ...names: readonly string[]): Json =>
  Object.fromEntries(Object.entries(isObject(object) ? object : {}).filter(([name]) => !names.includes(name)))

/** Returns the title of a group of operations: `API keys` for `api-keys`. */
const getDisplayName = (name: string) =>
  name
    .replaceAll('-', ' ')
    .replace(/^api\b/, 'API')
    .replace(/^./, (first) => first.toUpperCase())

/** Adds the title that Scalar shows instead of the name. */
const withDisplayName = (tag: unknown) =>
  isObject(tag) ? { ...tag, 'x-displayName': getDisplayName(String(tag.name)) } : tag

/**
 * Returns a copy of a document with the longer introduction of the page. It names no credentials: the page has its own
 * form for them, and sends the one credential that is active.
 */
export function toPageDocument(document: Json, { representation }: Version): Json {
  const paths = Object.entries(isObject(document.paths) ? document.paths : {})
  const withoutSecurity = (path: unknown) =>
    Object.fromEntries(
      Object.entries(isObject(path) ? path : {}).map(([name, value]) => [
        name,
        // The parameters that all operations of the path share are an array.
        Array.isArray(value) ? value : omit(value, 'security'),
      ]),
    )
  return {
    ...omit(document, 'externalDocs', 'security'),
    info: {
      ...omit(document.info, 'contact', 'license'),
      description: `${getPageGuide(representation.version, representation.about)}\n\n${commonHeadersGuide}`,
    },
    tags: Array.isArray(document.tags) ? document.tags.map(withDisplayName) : [],
    paths: Object.fromEntries(paths.map(([url, path]) => [url, withoutSecurity(path)])),
    components: omit(document.components, 'securitySchemes'),
  }
}
