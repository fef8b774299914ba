/**
 * `npm run build` compiles what has changed, and nothing else, and checks the types, the examples and the schemas;
 * `npm start` only compiles.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { getTemplateFile } from '../../packages/database/src/client/embedded/template.ts'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Of what a build reads, one package. */
const FILES = [
  ...['packages/database', 'scripts/build.js', 'package.json', 'package-lock.json'],
  ...['tsconfig.json', 'tsconfig.build.json', 'tsconfig.package.json'],
]
/** What the script runs beside the compiler, and last, here without work. */
const STEPS = [
  ...['scripts/build-page.ts', 'scripts/build-database.ts', 'scripts/build-application.ts'],
  'dist/src/cli.js',
]
/** All that a build reads, and the build of `npm test`. */
const ALL_FILES = [
  ...[
    ...FILES,
    'packages',
    'src',
    'plugins',
    'schemas',
    'drizzle',
    'templates',
    'drizzle.config.ts',
    'biome.json',
  ],
  ...['scripts', 'dist', '.env.example'],
]

function createCopy(t: Test, names: readonly string[]): string {
  const copy = testFolder(t)
  for (const name of names) cpSync(join(root, name), join(copy, name), { recursive: true })
  // The packages of the repository are those of the copy.
  mkdirSync(join(copy, 'node_modules/@resource-api'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')).filter((each) => each !== '@resource-api'))
    symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name))
  for (const name of readdirSync(join(copy, 'packages')))
    symlinkSync(join(copy, 'packages', name), join(copy, 'node_modules/@resource-api', name))
  return copy
}

/** What a build prints before all else. */
const NOTE = 'Building the server, which can take a minute ...\n'
/** What `npm start` prints before it compiles. */
const COMPILE_NOTE = 'Compiling the server ...\n'

function writeSteps(copy: string) {
  for (const folder of ['src', 'dist/src']) mkdirSync(join(copy, folder), { recursive: true })
  for (const name of STEPS) writeFileSync(join(copy, name), `console.error('${name}')\n`)
  const references = [{ path: 'packages/database' }]
  writeFileSync(join(copy, 'tsconfig.build.json'), JSON.stringify({ files: [], references }))
  // A module without a source is removed.
  writeFileSync(join(copy, 'src/cli.js'), '')
}

function writeServer(copy: string, code: string) {
  writeFileSync(join(copy, 'dist/src/server.js'), code)
  writeFileSync(join(copy, 'src/server.js'), '')
}

const runBuild = (copy: string) => promisify(execFile)(process.execPath, ['scripts/build.js'], { cwd: copy })

t.test('a build runs only if a source, a package or the build itself has changed', async (t) => {
  const copy = createCopy(t, FILES)
  writeSteps(copy)
  const output = join(copy, 'packages/database/dist/lib/duration.js')
  const build = async () => {
    utimesSync(output, 0, 0)
    const { stderr } = await runBuild(copy)
    const isBuilt = statSync(output).mtimeMs > 0
    const lines = stderr.slice(NOTE.length).split('\n').filter(Boolean)
    const steps = lines.filter((line) => !line.startsWith('  '))
    t.equal(
      lines.length,
      2 * steps.length + Number(isBuilt),
      'the end of each step is reported, and that of the compiler',
    )
    // The last one needs what the others make, which run beside each other.
    t.equal(steps.at(-1), isBuilt ? STEPS.at(-1) : undefined)
    t.same(steps.toSorted(), isBuilt ? STEPS.toSorted() : [], 'all steps run, or none')
    t.equal(stderr.startsWith(NOTE), isBuilt)
    return isBuilt
  }
  await runBuild(copy)
  t.equal(await build(), false, 'nothing has changed')
  utimesSync(join(copy, 'packages/database/src/lib/duration.ts'), 1, 1)
  t.equal(await build(), false, 'only the time of a source has changed')

  appendFileSync(join(copy, 'packages/database/src/lib/duration.ts'), 'export const added = 1\n')
  t.equal(await build(), true, 'a source has changed')
  t.match(readFileSync(output, 'utf8'), 'added')
  appendFileSync(join(copy, 'package-lock.json'), '\n')
  t.equal(await build(), true, 'the list of packages has changed')
  appendFileSync(join(copy, 'packages/database/dist/lib/ids.js'), 'broken(')
  t.equal(await build(), true, 'a file of the build has changed')
  t.notMatch(readFileSync(join(copy, 'packages/database/dist/lib/ids.js'), 'utf8'), 'broken')
  rmSync(join(copy, 'packages/database/dist/lib/ids.js'))
  t.equal(await build(), true, 'a file of the build is missing')
  rmSync(join(copy, 'packages/database/src/lib/error-code.ts'))
  await t.rejects(build(), { code: 1 }, 'a source is missing')
  t.equal(await build().catch(() => 'failed'), 'failed', 'a failed build is tried again')
})

t.test('a build removes the modules whose source was removed, and nothing else', async (t) => {
  const copy = createCopy(t, FILES)
  writeSteps(copy)
  const removed = ['packages/database/src/removed.ts', 'packages/database/src/sub/removed.ts']
  // As the other steps of a build write them: the browser's scripts and the files of PGlite.
  const kept = ['src/browser/page.js', 'dist/browser/page.js', 'dist/pglite.template'].map(
    (name) => `packages/database/${name}`,
  )
  for (const name of [...removed, ...kept]) {
    mkdirSync(dirname(join(copy, name)), { recursive: true })
    writeFileSync(join(copy, name), 'export const a = 1\n')
  }
  const modules = removed.map((name) => join(copy, name.replace('/src/', '/dist/').replace('.ts', '.js')))
  await runBuild(copy)
  t.ok(modules.every(existsSync))
  for (const name of removed) rmSync(join(copy, name))
  await runBuild(copy)
  t.notOk(modules.some(existsSync))
  t.ok(['packages/database/dist/lib/ids.js', ...kept].every((name) => existsSync(join(copy, name))))
})

/** A server that ends gracefully, as `signals.ts` does. */
const SERVER_CODE = `
  const timer = setInterval(() => undefined, 1000)
  process.on('SIGTERM', () => {
    clearInterval(timer)
    console.log('ended')
  })
  console.log('started', process.pid)
`

t.test('`npm start` compiles once, and its server ends gracefully if it is killed in any way', async (t) => {
  const copy = createCopy(t, [...FILES, 'scripts/start.js'])
  writeSteps(copy)
  writeServer(copy, SERVER_CODE)
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGKILL'] as const) {
    const env = { PATH: process.env.PATH, HOME: copy }
    const npm = spawn('npm', ['start', '-s'], { cwd: copy, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let [output, errors] = ['', '']
    npm.stdout.on('data', (chunk) => {
      output += chunk
    })
    npm.stderr.on('data', (chunk) => {
      errors += chunk
    })
    t.teardown(() => {
      const pid = Number(/started (\d+)/.exec(output)?.[1])
      if (pid && !output.includes('ended')) process.kill(pid, 'SIGKILL')
    })
    // Of the pipe, which the server has too.
    const closed = once(npm.stdout, 'close')
    await waitUntil(() => output.includes('started'), 120_000)
    // npm itself may warn of settings of this machine.
    if (signal === 'SIGTERM') t.equal(errors, COMPILE_NOTE, 'the first start compiles')
    else t.equal(errors, '', 'later ones compile nothing')
    npm.kill(signal)
    await closed
    t.match(output, /started \d+\nended\n$/, signal)
  }
})

t.test('`npm start` compiles what a build does, without its checks, and builds in production', async (t) => {
  const copy = createCopy(t, [...FILES, 'scripts/start.js'])
  writeSteps(copy)
  writeServer(copy, '')
  const readModules = () =>
    new Map(
      readdirSync(join(copy, 'packages/database/dist'), { recursive: true, withFileTypes: true })
        .filter(({ name }) => name.endsWith('.js'))
        .map(({ parentPath, name }) => join(parentPath, name))
        .map((path) => [path, readFileSync(path, 'utf8')]),
    )
  const start = async (environment?: string) => {
    const env = { PATH: process.env.PATH, NODE_ENV: environment }
    return (await promisify(execFile)(process.execPath, ['scripts/start.js'], { cwd: copy, env })).stderr
  }
  await runBuild(copy)
  const built = readModules()
  t.equal(await start(), '', 'a build is enough')

  rmSync(join(copy, 'packages/database/dist'), { recursive: true })
  t.equal(await start(), COMPILE_NOTE)
  t.same(readModules(), built)
  t.notOk(existsSync(join(copy, 'packages/database/dist/index.d.ts')))
  t.ok((await start('production')).startsWith(NOTE), 'production wants all of a build')
  t.ok(existsSync(join(copy, 'packages/database/dist/index.d.ts')))

  const source = join(copy, 'packages/database/src/lib/duration.ts')
  appendFileSync(source, "export const added: number = 'a'\n")
  await t.rejects(runBuild(copy), { code: 1 })
  t.equal(await start(), COMPILE_NOTE, 'types are not checked')
  t.match(readFileSync(source.replace('/src/', '/dist/').replace(/ts$/, 'js'), 'utf8'), 'added')
  appendFileSync(source, 'export const = 1\n')
  await t.rejects(start(), { code: 1, stdout: /duration\.ts/ }, 'syntax is')
})

t.test('a build fails if an example is wrong', async (t) => {
  const copy = createCopy(t, ALL_FILES)
  const profiles = join(copy, 'schemas/user-profiles.ts')
  writeFileSync(profiles, readFileSync(profiles, 'utf8').replace("bio: 'Notes on the engine.'", 'bio: 5'))
  const stderr = /user-profiles: the example of the schema "create" is not valid: "bio" must be/
  await t.rejects(runBuild(copy), { code: 1, stderr })
})

t.test('the prepared files of the embedded database have the version of PGlite', async (t) => {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'packages/database/package.json'), 'utf8'))
  t.equal(basename(getTemplateFile()), `pglite-${peerDependencies['@electric-sql/pglite']}.template`)
})
