/**
 * `npm run build`: compiles the server, unless nothing has changed since the last build. `npm start` builds by it too.
 * JavaScript, because a build that is up to date costs 100 ms here, and another 500 ms if it is TypeScript.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const STAMP = 'dist/build.sha256'

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
    'drizzle.config.ts',
    'biome.json',
    'package.json',
    'package-lock.json',
  ],
  ...[
    'scripts/build.js',
    'scripts/build-page.ts',
    'scripts/build-database.ts',
    'scripts/build-application.ts',
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

const isUpToDate = () =>
  existsSync(join(root, STAMP)) && readFileSync(join(root, STAMP), 'utf8') === hashFiles()

/** Runs a module of Node.js. @throws Error if it fails: it has printed what is wrong */
async function run(args, output = 'inherit') {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['inherit', output, 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${args[0]} failed`)
}

if (!isUpToDate()) {
  // Not on standard output, which has only JSON lines in production.
  console.error('Building the server, which can take a minute ...')
  const parts = packages.length > 0 ? ['page', 'database', 'application'] : []
  try {
    // Beside each other: each writes files of its own, from the sources.
    const steps = await Promise.allSettled([
      // Whole: an incremental build leaves a file out that was removed.
      run(['node_modules/typescript/bin/tsc', '-b', '--force', 'tsconfig.build.json']),
      ...parts.map((part) => run([...TYPESCRIPT, `scripts/build-${part}.ts`])),
    ])
    for (const step of steps) if (step.status === 'rejected') throw step.reason
    removeOutdatedModules()
    // Checks the examples and the schemas, which a start in production does not check, and builds the documents.
    await run(['dist/src/cli.js', 'openapi'], 'ignore')
  } catch {
    process.exit(1)
  }
  writeFileSync(join(root, STAMP), hashFiles())
}
