/** Changes the links of a page of `docs` for `create-resource-api`, which applications have in their `node_modules`. */
import { posix } from 'node:path'

/** The folders of `docs` that the package has, at the same places in `dist/docs`. */
export const PACKED_GUIDES = ['adopters', 'callers', 'operators']

const APPLICATION = ['src', 'plugins', 'schemas', 'drizzle', 'templates']
/** From the folder of a page to the `dist` of the package, and to `node_modules`. */
const [DIST, MODULES] = ['../..', '../../../..']

/** Returns the place of a file of the repository in an application, from the folder of a page; undefined if it is not there. */
function locate(path: string): string | undefined {
  const [top = '', name = '', ...rest] = path.split('/')
  if (APPLICATION.includes(top)) return posix.join(DIST, 'application', path)
  if (top !== 'packages') return undefined
  const file = rest.join('/').replace(/^src\/(.*)\.ts(?=#|$)/, 'dist/$1.d.ts')
  return posix.join(MODULES, name === 'create' ? 'create-resource-api' : `@resource-api/${name}`, file)
}

/**
 * Returns the text of a page with links that lead somewhere in an application. What it does not have, such as the samples in
 * `deploy`, stays as a text.
 * @param page the path of the page in the repository, such as `docs/adopters/jobs.md`
 */
export function toPackedPage(page: string, text: string): string {
  const folder = posix.dirname(page)
  return text.replace(
    /\[([^\][]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)/g,
    (link, label: string, target: string) => {
      const path = posix.join(folder, target)
      if (PACKED_GUIDES.some((guide) => path.startsWith(`docs/${guide}/`))) return link
      const place = locate(path)
      return place === undefined ? label : `[${label}](${place})`
    },
  )
}
