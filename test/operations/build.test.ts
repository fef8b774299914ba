/** `npm run build` compiles what has changed, and nothing else, and checks the examples and the schemas. */
import { execFile } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { getTemplateFile } from '../../drizzle/client/embedded/template.ts'
import { testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What a build reads, and the build of `npm test`. */
const FILES = [
  ...['src', 'plugins', 'schemas', 'drizzle', 'lib', 'client/src', 'scripts', 'dist'],
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'],
]

t.test('a build runs only if a source, a package or the build itself has changed', async (t) => {
  const copy = testFolder(t)
  for (const name of FILES) cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const output = join(copy, 'dist/lib/to-words.js')
  const setOld = () => utimesSync(output, 0, 0)
  const build = async () => {
    setOld()
    await promisify(execFile)(process.execPath, ['scripts/build.js'], { cwd: copy })
    return statSync(output).mtimeMs > 0
  }
  await build()
  t.equal(await build(), false, 'nothing has changed')
  utimesSync(join(copy, 'lib/to-words.ts'), 1, 1)
  t.equal(await build(), false, 'only the time of a source has changed')

  appendFileSync(join(copy, 'lib/to-words.ts'), 'export const added = 1\n')
  t.equal(await build(), true, 'a source has changed')
  t.match(readFileSync(output, 'utf8'), 'added')
  appendFileSync(join(copy, 'package-lock.json'), '\n')
  t.equal(await build(), true, 'the list of packages has changed')
  appendFileSync(join(copy, 'dist/lib/ids.js'), 'broken(')
  t.equal(await build(), true, 'a file of the build has changed')
  t.notMatch(readFileSync(join(copy, 'dist/lib/ids.js'), 'utf8'), 'broken')
  rmSync(join(copy, 'dist/lib/ids.js'))
  t.equal(await build(), true, 'a file of the build is missing')
  const products = join(copy, 'schemas/products.ts')
  const source = readFileSync(products, 'utf8')
  writeFileSync(products, source.replace('TEA-001', 'TEA 001'))
  const stderr = /products: the example of the schema "create" is not valid: "sku" must match pattern/
  await t.rejects(build(), { code: 1, stderr }, 'an example is wrong')
  writeFileSync(products, source)
  rmSync(join(copy, 'lib/error-code.ts'))
  await t.rejects(build(), { code: 1 }, 'a source is missing')
  t.equal(await build().catch(() => 'failed'), 'failed', 'a failed build is tried again')
})

t.test('the prepared files of the embedded database have the version of PGlite', async (t) => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  t.equal(basename(getTemplateFile()), `pglite-${dependencies['@electric-sql/pglite']}.template`)
})
