/**
 * The application alone, with packed packages instead of `packages/`: `npm start` compiles it, it serves everything, and its
 * tests pass.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { testFolder } from '../../packages/testing/helpers/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const APPLICATION = [
  'src',
  'plugins',
  'schemas',
  'drizzle',
  'test',
  'scripts/start.js',
  'scripts/build.js',
  'scripts/dev.js',
]

/** The configuration of tap of an application: its tests, without the sources of the packages. */
const TAP = `plugin: ['!@tapjs/typescript', '!@tapjs/mock']
node-arg: ['--import=tsx', '--import=./src/application.ts']
include: ['test/*.test.ts']
exclude: ['**/*.extended.test.ts']
jobs: 2
timeout: 300
disable-coverage: true
allow-empty-coverage: true
`

const packages = readdirSync(join(root, 'packages'))

/** Packs the packages, and extracts them where npm would install them; all others are those of this repository. */
function installPackages(folder: string) {
  const scope = join(folder, 'node_modules/@resource-api')
  mkdirSync(scope, { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')).filter((each) => each !== '@resource-api'))
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
  for (const name of packages) {
    const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder]
    const file = execFileSync('npm', args, { cwd: join(root, 'packages', name), encoding: 'utf8' }).trim()
    mkdirSync(join(scope, name))
    execFileSync('tar', ['-xzf', join(folder, file), '--strip-components=1', '-C', join(scope, name)])
  }
}

t.test('an application without packages/ compiles and runs with the packed ones', async (t) => {
  const folder = testFolder(t)
  installPackages(folder)
  for (const name of [...APPLICATION, 'tsconfig.json', 'package.json', 'package-lock.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true })
  const { references, ...build } = JSON.parse(readFileSync(join(root, 'tsconfig.build.json'), 'utf8'))
  t.equal(references.length, packages.length)
  writeFileSync(join(folder, 'tsconfig.build.json'), JSON.stringify(build))

  const env = { PATH: process.env.PATH, HOME: folder, PORT: '0' }
  const child = spawn(process.execPath, ['scripts/start.js'], { cwd: folder, env })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  let url: string | undefined
  for await (const line of createInterface(child.stdout)) {
    url = /Ready at (\S+),/.exec(line)?.[1]
    if (url !== undefined) break
  }
  if (url === undefined) return t.fail(`the server has not started: ${errors}`)
  child.stdout.resume()
  const read = async (path: string) => {
    const response = await fetch(url + path)
    return { status: response.status, text: await response.text() }
  }
  t.equal((await read('/readyz')).status, 200)
  t.match(await read('/api/v1/products'), { status: 401, text: '"UNAUTHORIZED"' })
  t.match(await read('/openapi/v1.json'), { status: 200, text: '"createOrder"' })
  t.match(await read('/docs/'), { status: 200, text: '<!doctype html>' })
  t.equal((await read('/docs/js/scalar.js')).status, 200)
  child.kill('SIGTERM')
  t.same(await ended, [0, null], errors)

  writeFileSync(join(folder, '.taprc'), TAP)
  const options = {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    encoding: 'utf8',
    maxBuffer: 1e8,
  } as const
  const tested = spawnSync('npm', ['test', '--', '--reporter=tap'], options)
  const failures = tested.stdout.split('\n').filter((line) => /^ *not ok/.test(line))
  t.equal(tested.status, 0, [...failures.slice(0, 20), tested.stderr.slice(0, 2_000)].join('\n'))
  t.match(tested.stdout, /^ok \d+ - test\/access\.test\.ts/m)

  const developed = spawn(process.execPath, ['scripts/dev.js'], { cwd: folder, env, detached: true })
  t.teardown(() => developed.pid && process.kill(-developed.pid, 'SIGKILL'))
  for await (const line of createInterface(developed.stdout)) if (/Ready at/.test(line)) return
  t.fail('`npm run dev` has not started the server')
})
