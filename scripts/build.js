/**
 * `npm run build`: checks the types, compiles the server and prepares its files, unless nothing has changed since the last
 * build. `npm start` only compiles, in three seconds instead of 26, outside production: what is not prepared, the server
 * makes when it needs it. JavaScript, because a build that is up to date costs 100 ms here, and another 500 ms if it is
 * TypeScript.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
/** What was built, and from what: `whole` or `compiled`, and the hash of sources and build. */
const STAMP = 'dist/build.sha256'
const STAMP_FILE = join(root, STAMP)
const WHOLE = 'whole'

/** None where they are installed, from a registry or from `npm pack`. */
const packages = existsSync(join(root, 'packages'))
  ? readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)
  : []

/** What a build is made from. Of the installed packages, the list that npm writes. */
const SOURCES = [
  ...[
    'src',
    'plugins',
    'schemas',
    'drizzle',
    'templates',
    'drizzle.config.ts',
    'test/access-matrix.json',
    'biome.json',
    'package.json',
    'package-lock.json',
  ],
  ...[
    'scripts/build.js',
    'scripts/build-page.ts',
    'scripts/build-database.ts',
    'scripts/build-application.ts',
    'scripts/packed-page.ts',
    ...['.env.example', 'docs/adopters', 'docs/callers', 'docs/operators'],
  ],
  ...['tsconfig.json', 'tsconfig.build.json', 'tsconfig.package.json', 'node_modules/.package-lock.json'],
  ...packages.flatMap((name) => [`${name}/src`, `${name}/package.json`, `${name}/tsconfig.json`]),
]
/** What it makes. */
const OUTPUTS = ['dist', ...packages.map((name) => `${name}/dist`)]

/** Runs TypeScript, with the sources of the packages. */
const TYPESCRIPT = ['--conditions=resource-api', '--import=tsx']

/** Lists the files below a folder, relative to the repository. */
function listFiles(folder) {
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  return [
    ...entries.filter((entry) => entry.isFile()).map(({ name }) => `${folder}/${name}`),
    ...entries.filter((entry) => entry.isDirectory()).flatMap(({ name }) => listFiles(`${folder}/${name}`)),
  ]
}

/** Returns the hash of all sources and of all files of the build: times change without the contents, and do not change with them. */
function hashFiles() {
  const hash = createHash('sha256')
  const addFile = (path) => {
    if (path === STAMP) return
    const content = readFileSync(join(root, path))
    hash.update(`${path}\0${content.length}\0`).update(content)
  }
  for (const path of [...SOURCES, ...OUTPUTS].filter((each) => existsSync(join(root, each)))) {
    if (/\.\w+$/.test(path)) addFile(path)
    else for (const file of listFiles(path)) addFile(file)
  }
  return hash.digest('hex')
}

/**
 * Adds the scripts of the documentation page as they are: to the theme's, which is no module, the compiler would append
 * `export {}`.
 */
function copyBrowserScripts() {
  const folder = join(root, 'packages/docs/src/openapi/browser')
  if (!existsSync(folder)) return
  const filter = (path) => !path.endsWith('.json')
  cpSync(folder, join(root, 'packages/docs/dist/openapi/browser'), { recursive: true, filter })
}

/**
 * Removes the modules whose source was removed, or is on another branch: those of tables would be loaded. A module is
 * compiled from TypeScript, or is a copy (the browser's scripts).
 */
function removeOutdatedModules() {
  const hasSource = (module) =>
    [module, module.replace(/js$/, 'ts')].some((source) => existsSync(join(root, source)))
  for (const folder of OUTPUTS)
    for (const file of listFiles(folder)) {
      if (!/\.js$|\.d\.ts$/.test(file)) continue
      const module = file.slice(folder.length + 1).replace(/\.d\.ts$/, '.js')
      const source = folder === 'dist' ? module : `${folder.replace(/dist$/, 'src')}/${module}`
      if (!hasSource(source)) rmSync(join(root, file))
    }
}

/** Runs a module of Node.js. @throws Error if it fails: it has printed what is wrong */
async function run(args, output = 'inherit') {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['inherit', output, 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${args[0]} failed`)
}

/** Runs steps beside each other: each writes files of its own, from the sources. @param report gets the number of each that ends */
async function runAll(steps, report = () => undefined) {
  const results = await Promise.allSettled(steps.map((step, i) => run(step).then(() => report(i))))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** The scripts `build-*.ts`, and what they prepare. */
const PARTS = {
  page: 'documentation page',
  database: 'embedded database',
  application: 'files of new applications',
}

const COMPILER = 'node_modules/typescript/bin/tsc'
/** Each module by itself, without the types of others. */
const WITHOUT_TYPES = ['--noCheck', '--noResolve', '--declaration', 'false', '--composite', 'false']

/** What the compiler leaves to do. */
function finish() {
  copyBrowserScripts()
  removeOutdatedModules()
}

async function compile() {
  const projects = ['tsconfig.build.json', ...packages.map((name) => `${name}/tsconfig.json`)]
  await runAll(projects.map((project) => [COMPILER, '-p', project, ...WITHOUT_TYPES]))
  finish()
}

async function buildWhole() {
  const parts = packages.length > 0 ? Object.keys(PARTS) : []
  const names = ['code and types', ...Object.values(PARTS)]
  // Whole: an incremental build leaves a file out that was removed.
  const compiler = [COMPILER, '-b', '--force', 'tsconfig.build.json']
  const steps = [compiler, ...parts.map((part) => [...TYPESCRIPT, `scripts/build-${part}.ts`])]
  await runAll(steps, (i) => console.error(`  ${names[i]}`))
  finish()
  // Checks the examples and the schemas, which a start in production does not check, and builds the documents.
  await run(['dist/src/cli.js', 'openapi'], 'ignore')
  console.error('  documents, and checks of the definitions')
}

/** Ends the process if the build fails. */
export async function build({ isWhole }) {
  const [kind, hash] = existsSync(STAMP_FILE) ? readFileSync(STAMP_FILE, 'utf8').split(' ') : []
  if ((kind === WHOLE || !isWhole) && hash === hashFiles()) return
  // Not on standard output, which has only JSON lines in production.
  console.error(isWhole ? 'Building the server, which can take a minute ...' : 'Compiling the server ...')
  try {
    await (isWhole ? buildWhole() : compile())
  } catch {
    process.exit(1)
  }
  writeFileSync(STAMP_FILE, `${isWhole ? WHOLE : 'compiled'} ${hashFiles()}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await build({ isWhole: true })
