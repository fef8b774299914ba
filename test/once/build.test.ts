/** `npm run build` compiles what has changed, and nothing else, and checks the examples and the schemas. */
import { execFile } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  mkdirSync,
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
import t, { type Test } from 'tap'
import { getTemplateFile } from '../../drizzle/client/embedded/template.ts'
import { testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Of what a build reads, one folder of sources. */
const FILES = [
  'lib',
  'scripts/build.js',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
]
/** What the script runs after the compiler, here without work. */
const STEPS = ['scripts/build-page.ts', 'scripts/build-database.ts', 'dist/src/cli.js']
/** All that a build reads, and the build of `npm test`. */
const ALL_FILES = [...FILES, 'src', 'plugins', 'schemas', 'drizzle', 'client/src', 'scripts', 'dist']

function createCopy(t: Test, names: readonly string[]): string {
  const copy = testFolder(t)
  for (const name of names) cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

const runBuild = (copy: string) => promisify(execFile)(process.execPath, ['scripts/build.js'], { cwd: copy })

t.test('a build runs only if a source, a package or the build itself has changed', async (t) => {
  const copy = createCopy(t, FILES)
  mkdirSync(join(copy, 'dist/src'), { recursive: true })
  for (const name of STEPS) writeFileSync(join(copy, name), `console.error('${name}')\n`)
  const output = join(copy, 'dist/lib/to-words.js')
  const build = async () => {
    utimesSync(output, 0, 0)
    const { stderr } = await runBuild(copy)
    const isBuilt = statSync(output).mtimeMs > 0
    t.equal(stderr, isBuilt ? STEPS.map((name) => `${name}\n`).join('') : '', 'all steps run, or none')
    return isBuilt
  }
  await runBuild(copy)
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
  rmSync(join(copy, 'lib/error-code.ts'))
  await t.rejects(build(), { code: 1 }, 'a source is missing')
  t.equal(await build().catch(() => 'failed'), 'failed', 'a failed build is tried again')
})

t.test('a second `npm start -s` compiles nothing, and prints what the server prints', async (t) => {
  const copy = createCopy(t, [...FILES, 'scripts/start.js'])
  mkdirSync(join(copy, 'dist/src'), { recursive: true })
  for (const name of STEPS) writeFileSync(join(copy, name), `console.error('${name}')\n`)
  writeFileSync(join(copy, 'dist/src/server.js'), `console.log('started')\n`)
  // npm itself may warn of settings of this machine.
  const start = () =>
    promisify(execFile)('npm', ['start', '-s'], { cwd: copy, env: { PATH: process.env.PATH, HOME: copy } })
  const first = await start()
  t.match(first.stderr, STEPS[0], 'the first one compiles')
  t.same(await start(), { stdout: 'started\n', stderr: '' })
})

t.test('a build fails if an example is wrong', async (t) => {
  const copy = createCopy(t, ALL_FILES)
  const profiles = join(copy, 'schemas/user-profiles.ts')
  writeFileSync(profiles, readFileSync(profiles, 'utf8').replace("bio: 'Notes on the engine.'", 'bio: 5'))
  const stderr = /user-profiles: the example of the schema "create" is not valid: "bio" must be/
  await t.rejects(runBuild(copy), { code: 1, stderr })
})

t.test('the prepared files of the embedded database have the version of PGlite', async (t) => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  t.equal(basename(getTemplateFile()), `pglite-${dependencies['@electric-sql/pglite']}.template`)
})
