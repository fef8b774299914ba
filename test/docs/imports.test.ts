/** Imports of the product go in one direction, without cycles, type-only imports included. */
import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'

/** Imports point from the left to the right. */
const FOLDERS = ['src', 'plugins', 'drizzle', 'schemas', 'lib'] as const
const root = new URL('../../', import.meta.url)

const files = FOLDERS.flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`),
)

function readImports(file: string): string[] {
  const text = readFileSync(new URL(file, root), 'utf8')
  const specifiers = [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(
    ([, specifier = '']) => specifier,
  )
  return specifiers.map((specifier) => posix.normalize(posix.join(posix.dirname(file), specifier)))
}

const imports = new Map(files.map((file) => [file, readImports(file)]))

const getRank = (file: string) => FOLDERS.findIndex((folder) => file.startsWith(`${folder}/`))

/** Returns one cycle among the imports, as the files on the way, or undefined. */
function findCycle(): string[] | undefined {
  const finished = new Set<string>()
  const visit = (file: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    if (finished.has(file)) return undefined
    for (const imported of imports.get(file) ?? []) {
      const cycle = visit(imported, [...way, file])
      if (cycle) return cycle
    }
    finished.add(file)
    return undefined
  }
  for (const file of files) {
    const cycle = visit(file, [])
    if (cycle) return cycle
  }
  return undefined
}

t.test('files import only from their own folder and from folders to its right', async (t) => {
  const backward = files.flatMap((file) =>
    readImports(file)
      .filter((imported) => getRank(imported) !== -1 && getRank(imported) < getRank(file))
      .map((imported) => `${file} imports ${imported}`),
  )
  t.same(backward, [])
})

/** Folders of the resource engine. Imports point from the left to the right. */
const ENGINE = ['operations', 'check', 'response', 'openapi', 'request', 'sql'] as const

const getEngineRank = (file: string) =>
  ENGINE.findIndex((folder) => file.startsWith(`plugins/collection/${folder}/`))

t.test('folders of the resource engine import one way', async (t) => {
  for (const folder of ENGINE) {
    t.ok(
      files.some((file) => file.startsWith(`plugins/collection/${folder}/`)),
      folder,
    )
  }
  const backward = files.flatMap((file) =>
    readImports(file)
      .filter((imported) => getEngineRank(imported) !== -1 && getEngineRank(imported) < getEngineRank(file))
      .map((imported) => `${file} imports ${imported}`),
  )
  t.same(backward, [])
})

t.test('there are no import cycles', async (t) => {
  t.ok(files.length > 200, 'the files are found')
  t.same(findCycle(), undefined)
})
