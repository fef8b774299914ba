/** The work, the job, the consumer and their test in docs/adopters/jobs.md do what the page says. */
import './warehouse-setting.ts'
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'

const root = new URL('../../../../', import.meta.url)
const page = readFileSync(new URL('docs/adopters/jobs.md', root), 'utf8')
const folder = testFolder(t)
const files = new Map(
  [...page.matchAll(/<!-- (.+) -->\n```ts\n([\s\S]*?)^```$/gm)].map(([, path = '', code = '']) => [
    path,
    code,
  ]),
)
if (files.size !== 5) throw new Error('docs/adopters/jobs.md lacks work, a job, a consumer or their test')

const getFile = (path: string) => join(folder, basename(path))

/** Returns the URL of a module that a file of the page imports. */
function resolve(specifier: string, importer: string): string {
  const path = new URL(specifier, new URL(importer, root)).href.slice(root.href.length)
  if (files.has(path)) return pathToFileURL(getFile(path)).href
  if (path.startsWith('packages/')) throw new Error(`${importer}: an application has no ${path}`)
  return new URL(path, root).href
}

for (const [path, code] of files) {
  const absolute = code.replace(/from '(\..+)'/g, (_, specifier) => `from '${resolve(specifier, path)}'`)
  // Packages are found from the folder of the repository.
  const compiled = absolute.replace(
    /from '(tap|@[a-z-]+\/[a-z/-]+)'/g,
    (_, name) => `from '${import.meta.resolve(name)}'`,
  )
  writeFileSync(getFile(path), compiled)
}
await import(getFile('sales.test.ts'))
