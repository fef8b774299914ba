/** The borders of the packages: imports by their names alone, which point one way. */
import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'

const root = new URL('../../', import.meta.url)

/** From the bottom to the top: a package imports those before it. The application imports all. */
const PACKAGES = [
  'database',
  'work',
  'api',
  'http',
  'cli',
  'resources',
  'accounts',
  'events',
  'docs',
  'testing',
]
const APPLICATION = ['src', 'plugins', 'schemas', 'drizzle']
const TESTS_AND_TOOLS = [
  ...['scripts', 'bench', 'test', 'packages/testing/helpers'],
  ...[...PACKAGES, 'client', 'create'].map((name) => `packages/${name}/test`),
  'packages/create/src',
]
/** What calls the API imports nothing of the server; the commands that call one import it. */
const CLIENT = 'client'

const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

const listFiles = (folder: string, end = '.ts') =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith(end))

const files = [...APPLICATION, ...[...PACKAGES, CLIENT].map((name) => `packages/${name}/src`)].flatMap(
  (folder) => listFiles(folder),
)

const getPackage = (path: string) => /^packages\/([^/]+)\//.exec(path)?.[1]

interface Import {
  file: string
  specifier: string
  names: readonly string[]
}

/** Returns the imports of a file, those of types and re-exports included. */
const readImports = (file: string): Import[] =>
  [...read(file).matchAll(/(?:\{([^}]*)\}\s*from\s+|from\s+|import\s*\(\s*|import\s+)'([^']+)'/g)].map(
    ([, names = '', specifier = '']) => ({
      file,
      specifier,
      names: names
        .split(',')
        .map((name) =>
          name
            .trim()
            .replace(/^type\s+/, '')
            .replace(/ as .*/, ''),
        )
        .filter((name) => name !== ''),
    }),
  )

const imports = files.flatMap(readImports)
const PREFIX = '@resource-api/'

/** Returns the faces of a package: the whole one, and parts that load nothing else. */
const readExports = (name: string): object => JSON.parse(read(`packages/${name}/package.json`)).exports

t.test('a package imports another one by its name, and only one below it', async (t) => {
  t.ok(imports.length > 2000, 'the imports are found')
  const wrong = imports.filter(({ file, specifier }) => {
    const own = getPackage(file)
    if (specifier.startsWith('.')) return getPackage(posix.join(posix.dirname(file), specifier)) !== own
    if (!specifier.startsWith(PREFIX)) return false
    const [name = '', ...part] = specifier.slice(PREFIX.length).split('/')
    if (name === CLIENT && part.length === 0) return own !== 'events'
    const imported = PACKAGES.indexOf(name)
    if (imported !== -1 && !(`./${part.join('/')}`.replace(/\/$/, '') in readExports(name))) return true
    return imported === -1 || (own !== undefined && imported >= PACKAGES.indexOf(own))
  })
  t.same(wrong, [])
})

t.test('the README of each package names the parts of its face', async (t) => {
  for (const name of PACKAGES) {
    const rows = read(`packages/${name}/README.md`).match(/^\| `.*$/gm) ?? []
    const named = rows.flatMap((row) => [...row.matchAll(/`\/([\w-]+)`/g)].map(([, part]) => `./${part}`))
    const parts = Object.keys(readExports(name)).filter((part) => !['.', './package.json'].includes(part))
    t.same(named.sort(), parts.sort(), name)
  }
})

/** Returns the names of a face. `export *` is one of helpers that schemas may need. */
const readNames = (file: string): string[] =>
  [...read(file).matchAll(/^export (?:type )?\{([^}]*)\}/gm)]
    .flatMap(([, names = '']) => names.split(','))
    .map((each) =>
      each
        .trim()
        .replace(/^type\s+/, '')
        .replace(/.* as /, ''),
    )
    .filter((each) => each !== '')

/** The most names of a face, whole or part. */
const MAX_NAMES = 25
/** What a package has for the others beside its concerns: the number of these names only falls, see below. */
const INTERNAL = './internal'

t.test(
  'a face has few names, and each is used by another package, the application, a tool or a page',
  async (t) => {
    const others = [
      ...TESTS_AND_TOOLS.flatMap((folder) => listFiles(folder)),
      ...listFiles('docs', '.md'),
      ...PACKAGES.map((name) => `packages/${name}/README.md`),
    ]
    const all = [...imports, ...others.flatMap(readImports)]
    for (const name of PACKAGES)
      for (const [path, targets] of Object.entries(readExports(name))) {
        const source = Object(targets)['resource-api']
        if (typeof source !== 'string') continue
        const specifier = PREFIX + name + path.slice(1)
        const names = readNames(`packages/${name}/${source.slice(2)}`)
        if (path !== INTERNAL) t.ok(names.length <= MAX_NAMES, `${specifier}: ${names.length} names`)
        const augmented = files.flatMap((file) =>
          [...read(file).matchAll(/declare module '(@resource-api\/[\w/]+)' \{\s+interface (\w+)/g)].flatMap(
            ([, module, augmentedName = '']) => (module === specifier ? [augmentedName] : []),
          ),
        )
        const used = new Set([
          ...augmented,
          ...all.flatMap((each) =>
            each.specifier === specifier && !each.file.startsWith(`packages/${name}/src/`) ? each.names : [],
          ),
        ])
        // Loaded by `import()`, when a command runs or after the check of Node.js: `readImports` finds no names there.
        const loaded = ['./commands', './process', './config', './env-file'].includes(path)
          ? read('packages/docs/src/program.ts') + read('src/server.ts') + read('docs/adopters/jobs.md')
          : ''
        t.same(
          names.filter((each) => !used.has(each) && !new RegExp(`\\b${each}\\b`).test(loaded)),
          [],
          specifier,
        )
      }
  },
)

t.test('the package for tests is imported by tests alone', async (t) => {
  t.same(
    imports.filter(
      ({ file, specifier }) => specifier === '@resource-api/testing' && !file.startsWith('test/'),
    ),
    [],
  )
})

t.test('tests of the application know the packages by their faces', async (t) => {
  const found = listFiles('test').flatMap(readImports)
  t.ok(found.length > 20, 'the imports are found')
  t.same(
    found.filter(({ specifier }) => specifier.includes('packages/') || specifier.endsWith('/internal')),
    [],
  )
})

/** Returns the names in the table of the page of a package, without those of rows about a part of it. */
const readTable = (name: string): string[] => {
  const rows = read(`packages/${name}/README.md`).match(/^\| .* \|$/gm) ?? []
  return rows.slice(1).flatMap((row) => {
    const [, cell = ''] = row.split('|')
    if (/`\/[\w-]+`/.test(cell)) return []
    return [...cell.matchAll(/`(\w+)`/g)].map(([, found = '']) => found)
  })
}

t.test('the page of a package names what its face has', async (t) => {
  for (const name of PACKAGES) {
    const parts = Object.entries(readExports(name)).flatMap(([path, targets]) => {
      const source = Object(targets)['resource-api']
      if (typeof source !== 'string' || path === INTERNAL) return []
      return [{ path, names: readNames(`packages/${name}/${source.slice(2)}`) }]
    })
    const table = readTable(name)
    const face = parts.find(({ path }) => path === '.')?.names ?? []
    t.same(
      face.filter((each) => !table.includes(each)),
      [],
      `${name}: names that the page lacks`,
    )
    const known = parts.flatMap(({ names }) => names)
    t.same(
      table.filter((each) => !known.includes(each)),
      [],
      `${name}: names that no face has`,
    )
  }
})

t.test('an application imports nothing that is for other packages', async (t) => {
  const wrong = imports.filter(
    ({ file, specifier }) => getPackage(file) === undefined && specifier.endsWith('/internal'),
  )
  t.same(wrong, [])
})

/** Packages of which each name belongs to a part with one concern. */
const WITHOUT_INTERNAL = ['database', 'work', 'api', 'cli']
/** Imports between packages that go through `/internal`. The number only falls: write the lower one when some are gone. */
const INTERNAL_IMPORTS = 92

t.test('no import is added that goes through the face for packages, and those below have none', async (t) => {
  t.equal(imports.filter(({ specifier }) => specifier.endsWith('/internal')).length, INTERNAL_IMPORTS)
  t.same(
    WITHOUT_INTERNAL.filter((name) => INTERNAL in readExports(name)),
    [],
  )
})
