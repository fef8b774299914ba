/** All files: imports of the product go in one direction, links have targets, one file has the name of the service. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startFlags } from '../../bench/start-flags.ts'
import { serverSettings } from '../../bench/targets/resource-api.ts'
import { identity } from '../../packages/database/src/identity.ts'

const PACKAGES = [
  'create',
  'testing',
  'docs',
  'events',
  'accounts',
  'resources',
  'cli',
  'http',
  'work',
  'database',
  'client',
].map((name) => `packages/${name}/src`)
/** Imports point from the left to the right. */
const FOLDERS = ['src', 'plugins', 'drizzle', 'schemas', ...PACKAGES]
const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

/** Returns the files below a folder whose names have this end. */
const listFiles = (folder: string, end = '.ts') =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(end) && !/(^|\/)node_modules\//.test(name))
    .map((name) => `${folder}/${name}`)
const files = FOLDERS.flatMap((folder) => listFiles(folder))

const readImports = (file: string) =>
  [...read(file).matchAll(/(?:from |import\()'(\.[^']+|@resource-api\/\w+)(?:\/[\w-]+)?'/g)].map(
    ([, specifier = '']) =>
      specifier.startsWith('.')
        ? posix.normalize(posix.join(posix.dirname(file), specifier))
        : `packages/${posix.basename(specifier)}/src/index.ts`,
  )
const imports = new Map(files.map((file) => [file, readImports(file)]))

/** Returns one cycle among the imports, as the files on the way, or undefined. */
function findCycle(
  from = files,
  way: readonly string[] = [],
  finished = new Set<string>(),
): string[] | undefined {
  for (const file of from) {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    const next = finished.has(file) ? [] : (imports.get(file) ?? [])
    const cycle = findCycle(next, [...way, file], finished)
    if (cycle) return cycle
    finished.add(file)
  }
  return undefined
}

const engine = ['operations', 'check', 'response', 'openapi', 'request', 'sql']

for (const folders of [FOLDERS, engine.map((folder) => `packages/resources/src/collection/${folder}`)])
  t.test(
    `files of ${folders.join(', ')} import only from their own folder and those behind it`,
    async (t) => {
      const getRank = (file: string) => folders.findIndex((folder) => file.startsWith(`${folder}/`))
      for (const rank of folders.keys()) t.ok(files.some((file) => getRank(file) === rank))
      for (const [file, imported] of imports)
        for (const each of imported)
          if (getRank(each) !== -1 && getRank(each) < getRank(file)) t.fail(`${file} imports ${each}`)
    },
  )

t.test('there are no import cycles', async (t) => {
  t.ok(files.length > 200, 'the files are found')
  t.same(findCycle(), undefined)
})

t.test(
  'only the commands `events tail`, `export`, `import` and `seed` import the client package',
  async (t) => {
    t.strictSame(
      files.filter((file) => / from '@resource-api\/client'/.test(read(file))),
      ['collection-rows', 'seed', 'tail'].map((name) => `packages/events/src/commands/${name}.ts`),
    )
  },
)

t.test('tests of packages have the resources of the application from one helper', async (t) => {
  const isOfApplication = (file: string) => /^(plugins|schemas|drizzle\/tables)\//.test(file)
  const importers = listFiles('packages')
    .filter((file) => /^packages\/\w+\/(test|helpers)\//.test(file))
    .filter((file) => readImports(file).some(isOfApplication))
  t.same(importers, ['packages/testing/helpers/shop.ts'])
})

/** Returns the text of a file without the names of packages. */
const readNames = (path: string) => read(path).replace(/['`]@resource-api\/[\w/-]+['`]/g, '')

t.test(
  'the name of the service is in one file, that of the program in another, and packages have both',
  async (t) => {
    const pattern = new RegExp(identity.name.replaceAll('-', '[-_ ]?'), 'i')
    // The program create-resource-api has the name of the product, and the client is compared below.
    const named = FOLDERS.filter((folder) => !/^packages\/(?:create|client)\//.test(folder))
      .flatMap((folder) => listFiles(folder, ''))
      .filter((path) => posix.extname(path) !== '' && pattern.test(readNames(path)))
    // Messages name the program of create-resource-api.
    t.same(named, ['src/application.ts', 'packages/database/src/identity.ts'])
    const { name, bin } = JSON.parse(read('package.json'))
    t.same([name, Object.keys(bin)], [identity.name, [identity.name]])
    t.equal(JSON.parse(read('packages/client/package.json')).name, identity.clientPackage)
  },
)

/** Returns the text of a document without its code, in which brackets are no links and `#` begins no heading. */
const readProse = (path: string) => read(path).replace(/^```[\s\S]*?^```$/gm, '')

/** Returns the anchors that GitHub gives the headings of a document. */
function getAnchors(path: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of readProse(path).matchAll(/^#{1,6} +(.+)$/gm)) {
    const text = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = text.replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(' ', '-')
    let anchor = slug
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`
    anchors.add(anchor)
  }
  return anchors
}

t.test('no pod of the Helm chart gets settings from the names of Kubernetes Services', async (t) => {
  const pods = listFiles('deploy/helm/resource-api/templates', '.yaml').filter((path) =>
    /^ +containers:$/m.test(read(path)),
  )
  t.equal(pods.length, 2)
  for (const path of pods) t.match(read(path), /^ +enableServiceLinks: false$/m, path)
})

const packages = readdirSync(new URL('packages', root)).map((name) => `packages/${name}/`)
const documents = [
  ...['', 'deploy/', 'bench/', '.github/', ...packages]
    .filter((folder) => existsSync(new URL(folder, root)))
    .flatMap((folder) => readdirSync(new URL(folder, root)).map((name) => folder + name))
    .filter((path) => path.endsWith('.md')),
  ...listFiles('docs', '.md'),
]

t.test('every link of the Markdown files has a target', async (t) => {
  t.ok(documents.includes('README.md') && documents.includes('docs/maintainers/architecture.md'))
  for (const document of documents)
    for (const [, link = ''] of readProse(document).matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? document : posix.join(posix.dirname(document), path)
      if (!t.ok(existsSync(new URL(target, root)), `${document}: ${link} exists`)) continue
      if (anchor !== undefined) t.ok(getAnchors(target).has(anchor), `${document}: ${link} is a heading`)
    }
})

t.test('what only a new application has agrees with the repository', async (t) => {
  const created = 'packages/create/application'
  const [shop, own] = ['compose.yaml', `${created}/compose.yaml`].map((path) => parse(read(path)).services)
  t.match(shop.database.image, /@sha256:[0-9a-f]{64}$/)
  t.equal(own.database.image, shop.database.image)
  for (const option of ['cap_drop', 'security_opt', 'read_only', 'tmpfs', 'stop_grace_period', 'ports']) {
    t.ok(shop.api[option], option)
    t.same(own.api[option], shop.api[option], option)
  }

  for (const folder of ['.', created]) t.equal(read(`${folder}/CLAUDE.md`), '@AGENTS.md\n')
  const plugins = listFiles('plugins').filter(
    (path) => !/\bdefineResource\(|\/orders\//.test(path + read(path)),
  )
  t.same(plugins.length, 5)
  for (const path of plugins) t.match(read(`${created}/AGENTS.md`), `\`${posix.basename(path)}\``)

  const overridden = Object.keys(JSON.parse(read('package.json')).overrides)
  t.ok(overridden.length > 0)
  for (const page of ['CONTRIBUTING.md', `${created}/README.md`])
    for (const name of overridden) t.match(read(page), `\`${name}\``, `${page} explains ${name}`)
})

t.test('the compose file of the bench has the images and settings of the others', async (t) => {
  const { services } = parse(read('bench/compose.yaml'))
  t.equal(services.database.image, parse(read('compose.yaml')).services.database.image)
  t.match(services.postgrest.image, /^postgrest\/postgrest:v[\d.]+@sha256:[0-9a-f]{64}$/)
  const getNode = (path: string) => /^FROM (node:\S+@sha256:[0-9a-f]{64})/m.exec(read(path))?.[1]
  t.ok(getNode('Dockerfile'))
  t.equal(getNode('bench/Dockerfile'), getNode('Dockerfile'))
  t.ok(existsSync(new URL(services.seed.build.dockerfile, root)))
  t.same([services.ours.build, services.seed.build.context], ['..', '..'])

  const { HOST: _host, DATA_DIR: _folder, ...settings } = serverSettings
  t.match(services.ours.environment, settings, 'the service has the settings of `npm run bench`')
  t.same(services.reference.command, ['node', ...startFlags, 'bench/targets/reference/fastify.js'])
  const at = services.bench.command.at(-1).split(',')
  t.equal(at.length, 3)
  const copies = services.seed.command.slice(services.seed.command.indexOf('bench/seed-copies.ts') + 1)
  t.same(copies, ['ours', 'reference', 'postgrest'])
  for (const [i, name] of copies.entries()) {
    const database = `postgres://api:bench@database:5432/${name}`
    t.ok(at[i].endsWith(`=http://${name}:3000|${database}`), name)
    const { environment, cpus, depends_on } = services[name]
    t.equal(environment.DATABASE_URL ?? environment.PGRST_DB_URI, database)
    t.equal(environment.POOL_SIZE ?? environment.PGRST_DB_POOL, '10')
    t.same([cpus, services.database.cpus], [1, 1])
    t.same(depends_on, { seed: { condition: 'service_completed_successfully' } })
  }
})

t.test('each package says what it is and by which words it is found', async (t) => {
  for (const folder of packages) {
    const { name, description, keywords } = JSON.parse(read(`${folder}package.json`))
    t.ok(description.length > 60, name)
    t.ok(keywords.length >= 4, name)
  }
})

const SOURCE_FOLDERS = 'bench|deploy|docs|drizzle|packages|plugins|schemas|scripts|src|test'

/** Returns whether a path that a document names is one of the repository, of a package, or of a file that the page is about. */
const hasFile = (document: string, path: string) =>
  ['', ...packages].some((folder) => existsSync(new URL(folder + path, root))) ||
  [`<!-- ${path} -->`, `: \`${path}\`\n`].some((title) => read(document).includes(title)) ||
  // The reader writes this file, as the page says.
  (document.startsWith('docs/adopters/') && !path.endsWith('.test.ts'))

t.test('the files that Markdown files name exist', async (t) => {
  const pattern = new RegExp(`\`((?:${SOURCE_FOLDERS})(?:/[\\w.-]+)*/[\\w-]+(?:\\.[\\w-]+)*\\.\\w+)\``, 'g')
  const named = documents.flatMap((document) =>
    [...readProse(document).matchAll(pattern)].map(([, path = '']) => ({ document, path })),
  )
  t.ok(named.length > 50, 'the paths are found')
  t.same(
    named.filter(({ document, path }) => !hasFile(document, path)),
    [],
  )
})

t.test('docs/README.md links every page of docs, which have at most 32,000 words without code', async (t) => {
  const index = readProse('docs/README.md')
  const pages = listFiles('docs', '.md').filter((path) => path !== 'docs/README.md')
  t.ok(pages.length > 20, 'the pages are found')
  t.same(
    pages.filter((path) => !index.includes(`](${path.slice('docs/'.length)}`)),
    [],
  )
  const words = ['docs/README.md', ...pages].flatMap((path) => readProse(path).split(/\s+/))
  t.ok(words.length <= 32_000, `${words.length} words`)
})

/** Returns the statements of a file that await after its first test, or before a test in the same loop. */
function findAwaits(text: string): string[] {
  const found: string[] = []
  let [hasTest, isInLoop, inLoop] = [false, false, [] as string[]]
  for (const line of text.split('\n')) {
    if (/^[^\s}]/.test(line)) [isInLoop, inLoop] = [line.startsWith('for '), []]
    if (!/^\S/.test(line) && !(isInLoop && /^ {2}\S/.test(line))) continue
    if (/^\s*(?:t\.)?test\(/.test(line)) {
      found.push(...inLoop.splice(0))
      hasTest = true
    } else if (/^(?!\s*[/*]|.*\basync\b).*\bawait\b/.test(line)) (hasTest ? found : inLoop).push(line)
  }
  return found
}

// The root test may end by then, and the later tests may not run.
t.test('no test file awaits between its tests', async (t) => {
  const paths = ['test', 'packages', 'scripts', 'deploy'].flatMap((folder) => listFiles(folder, '.test.ts'))
  t.ok(paths.length > 200, 'the files are found')
  for (const path of paths) t.same(findAwaits(read(path)), [], path)
  t.same(findAwaits("t.test('a')\nconst b = await c()"), ['const b = await c()'])
  t.same(findAwaits("for (;;) {\n  await b()\n  t.test('a')\n}"), ['  await b()'])
})
