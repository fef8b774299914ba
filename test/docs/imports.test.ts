/** Imports of the product go in one direction, without cycles, type-only imports included. */
import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'

/** Imports point from the left to the right. */
const FOLDERS = ['src', 'plugins', 'drizzle', 'schemas', 'lib', 'client/src'] as const
const root = new URL('../../', import.meta.url)

const listFiles = (folder: string) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`)
const files = FOLDERS.flatMap(listFiles)

function readImports(file: string): string[] {
  const text = readFileSync(new URL(file, root), 'utf8')
  const specifiers = [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(
    ([, specifier = '']) => specifier,
  )
  return specifiers.map((specifier) => posix.normalize(posix.join(posix.dirname(file), specifier)))
}

/** The folders in which an own resource has files of its name. */
const ownFiles = ['drizzle/tables/', 'plugins/resources/', 'schemas/', 'src/cli/demo-data/']

/** Returns whether a file belongs to a name: `orders.ts`, `orders.test.ts` and `orders/stock.ts` to `orders`. */
const isWithin = (file: string, path: string) => file.startsWith(`${path}.`) || file.startsWith(`${path}/`)

const imports = new Map(files.map((file) => [file, readImports(file)]))

/** Returns one cycle among the imports, as the files on the way, or undefined. */
function findCycle(
  from = files,
  way: readonly string[] = [],
  finished = new Set<string>(),
): string[] | undefined {
  for (const file of from) {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    const cycle = finished.has(file)
      ? undefined
      : findCycle(imports.get(file) ?? [], [...way, file], finished)
    if (cycle) return cycle
    finished.add(file)
  }
  return undefined
}

/** Returns the imports of a file whose folder is further to the left. */
const findBackward = (folders: readonly string[]) => {
  const getRank = (file: string) => folders.findIndex((folder) => file.startsWith(`${folder}/`))
  for (const folder of folders)
    t.ok(
      files.some((file) => file.startsWith(`${folder}/`)),
      folder,
    )
  return [...imports].flatMap(([file, imported]) =>
    imported
      .filter((each) => getRank(each) !== -1 && getRank(each) < getRank(file))
      .map((each) => `${file} imports ${each}`),
  )
}

t.test('files import only from their own folder and from folders to its right', async (t) => {
  t.same(findBackward(FOLDERS), [])
})

// By its path, not by the name of the package: that would be its build, which a fresh checkout does not have.
t.test('only the commands `events tail`, `export` and `import` import the client package', async (t) => {
  const importers = [...imports].filter(
    ([file, imported]) => !file.startsWith('client/') && imported.some((each) => each.startsWith('client/')),
  )
  t.strictSame(
    importers.map(([file]) => file),
    ['src/cli/collection-rows.ts', 'src/cli/events.ts'],
  )
})

// A test that did would not run in a project that has removed the resource.
t.test('only the tests of an own resource import its files', async (t) => {
  const names = listFiles('drizzle/tables').map((file) => posix.basename(file, '.ts'))
  const isOwn = (file: string) =>
    names.some((name) => ownFiles.some((folder) => isWithin(file, folder + name)))
  t.ok(
    names.every((name) => isOwn(`plugins/resources/${name}.ts`)),
    'the files are found',
  )
  const isTestOfOwn = (file: string) => names.some((name) => isWithin(file, `test/resources/${name}`))
  const importers = listFiles('test').filter((file) => !isTestOfOwn(file) && readImports(file).some(isOwn))
  t.same(importers, [])
})

t.test('folders of the resource engine import one way', async (t) => {
  const folders = ['operations', 'check', 'response', 'openapi', 'request', 'sql']
  t.same(findBackward(folders.map((folder) => `plugins/collection/${folder}`)), [])
})

t.test('there are no import cycles', async (t) => {
  t.ok(files.length > 200, 'the files are found')
  t.same(findCycle(), undefined)
})
